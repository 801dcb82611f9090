/** The TypeScript package as somebody else would use it: from its archive, in an empty folder, on every Node it names. */
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Deployment, root, startDeployment } from "./clients-deployment.ts";

const timeout = 300_000;
const source = join(root, "clients/typescript");
const versions = [20, 22, 24];
let deployment: Deployment;
let folder: string;
let archive: string;

const run = async (command: string, args: readonly string[], cwd = folder): Promise<string> =>
  (await promisify(execFile)(command, [...args], { cwd, env: { ...process.env, NODE_OPTIONS: "" } })).stdout;
/** A tool that the service's own checkout has. */
const tool = (name: string, args: readonly string[]) => run(join(root, "node_modules/.bin", name), args);

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-clients-typescript-"));
  await run("npm", ["pack", "--pack-destination", folder], source);
  const [name = ""] = await readdir(folder);
  archive = join(folder, name);
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module", private: true }));
  const platform = `node-${process.platform}-${process.arch}`;
  await run("npm", [
    ...["install", "--no-audit", "--no-fund", archive],
    ...["typescript", "@types/node", ...versions.map((version) => `node${version}@npm:${platform}@${version}`)],
  ]);
  const readme = await readFile(join(source, "README.md"), "utf8");
  await writeFile(join(folder, "main.ts"), /```ts\n(.*?)```/s.exec(readme)?.[1] ?? "");
  deployment = await startDeployment();
  await deployment.startGateway();
}, timeout);
afterAll(async () => {
  await deployment?.stop();
  await rm(folder, { recursive: true });
});

test("is made as packages are: what its entries name is there, for every way of resolving it", {
  timeout,
}, async () => {
  await tool("publint", ["--strict", archive]);
  await tool("attw", [archive, "--profile", "esm-only"]);
});

test("the README's program is right in strict mode, declarations of libraries included", { timeout }, async () => {
  const options = ["--strict", "--skipLibCheck", "false", "--module", "nodenext", "--target", "es2022"];
  const compiler = createRequire(import.meta.url).resolve("typescript/package.json");
  const tsc = join(dirname(compiler), "bin/tsc");
  await run(process.execPath, [tsc, ...options, "--types", "node", "--outDir", "built", "main.ts"]);
});

describe("the README's program is answered", () => {
  test.each(versions)("by Node %i", { timeout }, async (version) => {
    const env = deployment.clientEnv();
    const given = ["URL", "ISSUER", "CLIENT_ID", "CLIENT_SECRET", "CA", "CERT", "KEY"].map(
      (name) => env[`PLATFORM_${name}`] ?? "",
    );
    const node = join(folder, `node_modules/node${version}/bin/node`);
    expect(await run(node, ["--version"])).toMatch(new RegExp(`^v${version}\\.`));
    expect(await run(node, ["built/main.js", ...given])).toBe("payroll-service\n");
  });
});

describe("what a program does not use is not in its bundle", () => {
  test.each([
    ["esbuild", ["--bundle", "--format=esm", "--minify", "--platform=browser", "--outfile=esbuild.js", "core.js"]],
    ["rolldown", ["core.js", "--format", "esm", "--minify", "--platform", "browser", "--file", "rolldown.js"]],
  ])("%s", { timeout }, async (bundler, args) => {
    await writeFile(
      join(folder, "core.js"),
      'import { createPlatformClient, createRestTransport } from "svc-platform-client";\n' +
        'globalThis.client = createPlatformClient(createRestTransport({ baseUrl: "https://localhost" }));\n',
    );
    await tool(bundler, args);
    const bundle = await readFile(join(folder, `${bundler}.js`));
    expect(bundle.toString()).not.toMatch(/ReceiptError|client_credentials|node:/);
    // As the README says, with room for what compilers and libraries change.
    expect(gzipSync(bundle).length).toBeLessThan(75_000);
  });
});

test("the command line is there", { timeout }, async () => {
  expect(await run(join(folder, "node_modules/.bin/svc-platform"), ["--help"])).toMatch(/protect/);
});

test("the service itself is refused to be packed, with a sentence", { timeout }, async () => {
  await expect(run("npm", ["pack", "--dry-run"], root)).rejects.toThrow(/run it from a checkout, or as an image/);
});
