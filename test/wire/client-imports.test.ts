import { join, relative, resolve } from "node:path";
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
    resolve: {
      alias: {
        "svc-platform-client/bulk": join(root, "clients/typescript/src/bulk.ts"),
        "svc-platform-client/node": join(root, "clients/typescript/src/node.ts"),
        "svc-platform-client/receipts": join(root, "clients/typescript/src/receipts.ts"),
        "svc-platform-client": join(root, "clients/typescript/src/index.ts"),
      },
    },
    plugins: [
      {
        name: "entry",
        resolveId: (id) => (id === entry ? { id: join(root, "virtual-entry.js") } : undefined),
        load: (id) => (id.endsWith("virtual-entry.js") ? code : undefined),
      },
    ],
    external(id) {
      if (id === entry || id.startsWith(".") || id.startsWith("/") || id.startsWith("svc-platform-client"))
        return false;
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

const everything = 'export * from "svc-platform-client";';
const ours = "clients/typescript/src";

test("the client contains no server code, and no receipts that were not imported", async () => {
  const { modules, packages } = await bundle(everything);
  const foreign = modules.filter((path) => !path.startsWith("gen/") && !path.startsWith(`${ours}/`));
  expect(foreign).toEqual([]);
  expect(modules.filter((path) => path.includes("receipts"))).toEqual([]);
  expect(packages.filter((name) => !/^(dpop|@(bufbuild\/protobuf|connectrpc\/connect)(\/|$))/.test(name))).toEqual([]);
});

test("bulk calls and streams are in bundles that use them only, and import nothing else", async () => {
  const isBulk = (path: string) => /^(gen\/platform\/bulk|clients\/typescript\/src\/bulk)[/.]/.test(path);
  const whole = await bundle(everything);
  expect(whole.modules.filter(isBulk)).toEqual([]);
  const { modules, packages } = await bundle('export * from "svc-platform-client/bulk";');
  expect(modules.filter((path) => !isBulk(path) && !whole.modules.includes(path))).toEqual([]);
  expect(packages.filter((name) => !whole.packages.includes(name))).toEqual([]);
  // Nor has who only verifies what single calls were answered.
  const receipts = await bundle('export { verifyAnswer } from "svc-platform-client/receipts";');
  expect(receipts.modules.filter((path) => isBulk(path) || path.endsWith("receipts/items.ts"))).toEqual([]);
});
