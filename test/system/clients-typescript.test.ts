/** The TypeScript package as a user would use it: from its archive, in an empty folder, on every Node it names. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { folderForFile } from "../harness/folder.ts";
import { startGateway } from "../harness/gateway.ts";
import { forFile, forTest } from "../harness/lifetimes.ts";
import { archiveOf } from "./clients-builds.ts";
import { platformEnv, root, startDeployment } from "./clients-deployment.ts";
import { bundlerNames, installClient, readmePrograms, strictly, tool } from "./clients-typescript-archive.ts";

const timeout = 300_000;
const versions = [20, 22, 24, 26];
/** Of the README, in its order, and what each prints. */
const programs = ["main", "ship"];
const printed = ["payroll-service\n", "3 of 3 events are recorded\n"];
const platform = `node-${process.platform}-${process.arch}`;
const nodes = versions.map((version) => `node${version}@npm:${platform}@${version}`);
const folder = folderForFile("clients-typescript");
const { run, bundle } = await installClient(folder, "typescript", "@types/node", ...nodes);
const texts = await readmePrograms();
for (const [i, name] of programs.entries())
  for (const ending of ["ts", "mjs"]) await writeFile(join(folder, `${name}.${ending}`), texts[i] ?? "");
const deployment = await forFile(startDeployment());

test("every entry of the package resolves, in every way of resolving it", {
  timeout,
}, async () => {
  await run(tool("publint"), ["--strict", archiveOf("typescript")]);
  await run(tool("attw"), [archiveOf("typescript"), "--profile", "esm-only"]);
});

test("the README's programs compile in strict mode, with the declarations of libraries", { timeout }, async () => {
  await run(process.execPath, [...strictly, "--noEmit", ...programs.map((name) => `${name}.ts`)]);
});

describe("the README's programs run as written", () => {
  test.each(versions)("by Node %i", { timeout }, async (version) => {
    const { PLATFORM_SCOPE: _, ...env } = deployment.clientEnv();
    const given = Object.values(env);
    const node = join(folder, `node_modules/node${version}/bin/node`);
    expect(await run(node, ["--version"])).toMatch(new RegExp(`^v${version}\\.`));
    for (const [i, name] of programs.entries()) expect(await run(node, [`${name}.mjs`, ...given])).toBe(printed[i]);
  });

  test("without TLS, and without files", { timeout }, async () => {
    const gateway = await forTest(startGateway({ env: { SVC_BULK: "on" } }));
    const { PLATFORM_SCOPE: _, ...env } = platformEnv(gateway);
    for (const [i, name] of programs.entries())
      expect(await run(process.execPath, [`${name}.mjs`, ...Object.values(env)])).toBe(printed[i]);
  });
});

describe("a bundle contains only what its program uses", () => {
  test.each(bundlerNames)("%s", { timeout }, async (bundler) => {
    const program =
      'import { createPlatformClient, createRestTransport } from "svc-platform-client";\n' +
      'globalThis.client = createPlatformClient(createRestTransport({ baseUrl: "https://localhost" }));\n';
    const bundled = await readFile(await bundle(bundler, "core", program));
    expect(bundled.toString()).not.toMatch(/ReceiptError|client_credentials|platform\.bulk|node:/);
    // As the README says, with room for what compilers and libraries change.
    expect(gzipSync(bundled).length).toBeLessThan(75_000);
  });
});

test("the command line is installed", { timeout }, async () => {
  expect(await run(join(folder, "node_modules/.bin/svc-platform"), ["--help"])).toMatch(/protect/);
});

test("its README names what needs more than Node 20, and has no link out of the package", {
  timeout,
}, async () => {
  const modules = join(folder, "node_modules");
  const listed = JSON.parse(await run("npm", ["ls", "--all", "--json"]));
  const names = [...new Set(namesOf(listed.dependencies["svc-platform-client"]))];
  expect(names.length).toBeGreaterThan(4);
  const isTooNew = async (name: string) => {
    const { engines } = JSON.parse(await readFile(join(modules, name, "package.json"), "utf8"));
    return Number(/^>=\s*(\d+)/.exec(engines?.node ?? "")?.[1] ?? 0) > 20;
  };
  const tooNew: string[] = [];
  for (const name of names) if (await isTooNew(name)) tooNew.push(name);
  const readme = await readFile(join(modules, "svc-platform-client/README.md"), "utf8");
  expect(tooNew).toEqual([/Under Node 20\s+npm\s+warns that `(.*?)`/s.exec(readme)?.[1]]);
  expect(readme.match(/\]\((?!https:|#)[^)]*\)/g)).toBe(null);
});

test("npm refuses to pack the service itself, with the reason", { timeout }, async () => {
  await expect(run("npm", ["pack", "--dry-run", root])).rejects.toThrow(/run it from a checkout, or as an image/);
});

interface Listed {
  readonly dependencies?: Readonly<Record<string, Listed>>;
}

/** Names of all that it depends on. */
function namesOf({ dependencies = {} }: Listed): readonly string[] {
  return Object.entries(dependencies).flatMap(([name, each]) => [name, ...namesOf(each)]);
}
