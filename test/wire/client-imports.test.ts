import { readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { rolldown } from "rolldown";
import { expect, test } from "vitest";

const root = resolve(import.meta.dirname, "../..");

/** Every module of ours behind an entry of the package, and every package that they import. */
async function bundle(code: string): Promise<{ modules: string[]; packages: string[]; sizeBytes: number }> {
  const entry = "virtual:entry";
  const packages = new Set<string>();
  const build = await rolldown({
    input: entry,
    cwd: root,
    platform: "neutral",
    plugins: [
      {
        name: "entry",
        resolveId: (id) => (id === entry ? { id: join(root, "virtual-entry.js") } : undefined),
        load: (id) => (id.endsWith("virtual-entry.js") ? code : undefined),
      },
    ],
    external(id) {
      if (id === entry || id.startsWith(".") || id.startsWith("/") || id.startsWith("svc-platform-api/")) return false;
      packages.add(id);
      return true;
    },
  });
  const { output } = await build.generate({ format: "esm" });
  await build.close();
  const [chunk] = output;
  const modules = Object.entries(chunk.modules)
    .filter(([id, { renderedLength }]) => renderedLength > 0 && !id.endsWith("virtual-entry.js"))
    .map(([id]) => relative(root, id));
  return { modules, packages: [...packages].sort(), sizeBytes: chunk.code.length };
}

const everything = 'export * from "svc-platform-api/client";';

test("the client has nothing of the server in it", async () => {
  const { modules, packages } = await bundle(everything);
  const foreign = modules.filter((path) => !/^(gen\/|src\/client\/)/.test(path));
  // The spelling of the JSON routes, which both sides write.
  expect(foreign.sort()).toEqual(["src/transport/rest/encode.ts", "src/transport/rest/registry.ts"]);
  expect(packages.filter((name) => !/^@(bufbuild\/protobuf|connectrpc\/connect)(\/|$)/.test(name))).toEqual([]);
});

test("Node's part of it adds one package, and receipts the formats of the ledger", async () => {
  const node = await bundle('export * from "svc-platform-api/client/node";');
  expect(node.modules).toEqual(["src/client/node.ts"]);
  expect(node.packages).toEqual(["@connectrpc/connect-node"]);
  const receipts = await bundle('export * from "svc-platform-api/client/receipts";');
  expect(receipts.modules.filter((path) => !/^src\/(client|ledger|base)\//.test(path))).toEqual([]);
  expect(receipts.packages).toEqual(["canonicalize", "node:crypto", "uuid"]);
});

test("what a program does not use is not in its bundle", async () => {
  const whole = await bundle(everything);
  const part = await bundle('export { clientCredentials } from "svc-platform-api/client";');
  expect(part.modules.sort()).toEqual(["src/client/http.ts", "src/client/tokens.ts"]);
  expect(part.sizeBytes).toBeLessThan(whole.sizeBytes / 5);
});

test("every entry of the package is there", () => {
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  for (const path of Object.values<string>(exports)) readFileSync(join(root, path));
  expect(Object.keys(exports)).toContain("./client");
  expect(dirname(exports["./client"])).toBe("./src/client");
});
