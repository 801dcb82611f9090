/** Clients that public generators make of the document make all eight calls, whatever their language. */
import { execFile } from "node:child_process";
import { copyFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Gateway, startGateway } from "../harness/gateway.ts";
import { installPythonTools } from "../harness/python.ts";
import { root } from "./clients-deployment.ts";

const openApiGenerator = "org.openapitools:openapi-generator-cli:7.25.0";
const document = join(root, "gen/openapi.json");
const execute = promisify(execFile);

let gateway: Gateway;
let folder: string;
let env: Record<string, string>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-openapi-clients-"));
  gateway = await startGateway();
  env = { SVC_URL: gateway.url, SVC_TOKEN: await gateway.token() };
  const copy = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy";
  const copied = [`-Dartifact=${openApiGenerator}`, `-DoutputDirectory=${folder}`, "-Dmdep.stripVersion=true"];
  await run("mvn", ["--quiet", "--batch-mode", copy, ...copied]);
}, 300_000);
afterAll(async () => {
  await gateway?.stop();
  await rm(folder, { recursive: true, force: true });
});

const everyCall = {
  routes: 8,
  tenant: "tenant-a",
  plaintext_to_platform: false,
  allow: [true, true, true],
  registered: true,
  ingested: true,
};

/** Runs a command. Resolves with its standard output; rejects where it fails, with everything that it said. */
async function run(command: string, args: readonly string[], cwd = folder): Promise<string> {
  const options = { cwd, env: { ...process.env, ...env }, maxBuffer: 64 * 1024 * 1024 };
  try {
    return (await execute(command, args, options)).stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    throw new Error(`${command} failed\n${stdout ?? ""}\n${stderr ?? ""}`, { cause: error });
  }
}

/** Makes a client and puts the program beside it. Resolves with the client's folder. */
async function generate(language: string, program: string, to: string, ...options: string[]): Promise<string> {
  const output = join(folder, language);
  const jar = join(folder, "openapi-generator-cli.jar");
  await run("java", ["-jar", jar, "generate", "-i", document, "-g", language, "-o", output, ...options]);
  await copyFile(join(import.meta.dirname, "openapi-clients", program), join(output, to));
  return output;
}

test("Python, by OpenAPI Generator", async () => {
  const client = await generate("python", "python.py", "calls.py");
  const tools = await installPythonTools([client]);
  try {
    expect(JSON.parse(await tools.run("python", [join(client, "calls.py")], { env }))).toEqual(everyCall);
  } finally {
    await tools.remove();
  }
}, 300_000);

test("Java, by OpenAPI Generator", async () => {
  const client = await generate("java", "Calls.java", "src/main/java/Calls.java");
  await run("mvn", ["--quiet", "--batch-mode", "package", "-Dmaven.test.skip", "-Dmaven.javadoc.skip"], client);
  const classPath = ["target/classes", "target/lib/*"].map((path) => join(client, path)).join(":");
  expect(JSON.parse(await run("java", ["-cp", classPath, "Calls"]))).toEqual(everyCall);
}, 300_000);

test("Go, by OpenAPI Generator", async () => {
  // Without the prefix the words that two enumerations share clash: Go's constants have one name space.
  const options = ["-p", "enumClassPrefix=true", "--git-host", "example.com"];
  const module = ["--git-user-id", "svc", "--git-repo-id", "platform"];
  const client = await generate("go", "calls.go", "../calls.go", ...options, ...module);
  await rm(join(client, "test"), { recursive: true, force: true });
  await run("go", ["mod", "init", "example.com/svc/calls"]);
  await run("go", [
    "mod",
    "edit",
    "-require=example.com/svc/platform@v0.0.0",
    `-replace=example.com/svc/platform=${client}`,
  ]);
  expect(JSON.parse(await run("go", ["run", "calls.go"]))).toEqual(everyCall);
}, 300_000);

test("TypeScript, by OpenAPI Generator", async () => {
  const client = await generate("typescript-fetch", "calls.ts", "calls.ts");
  const compilerOptions = {
    strict: true,
    noEmit: true,
    target: "es2022",
    module: "esnext",
    moduleResolution: "bundler",
  };
  await writeFile(join(client, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["calls.ts"] }));
  await run(join(root, "node_modules/.bin/tsc"), ["--project", client]);
  await run(join(root, "node_modules/.bin/rolldown"), ["calls.ts", "--format", "esm", "--file", "calls.mjs"], client);
  expect(JSON.parse(await run(process.execPath, ["calls.mjs"], client))).toEqual(everyCall);
}, 300_000);

test("Python, by openapi-python-client", async () => {
  const tools = await installPythonTools(["openapi-python-client==0.29.1"]);
  try {
    await writeFile(join(tools.folder, "config.yaml"), "post_hooks: []\n");
    // Fails on every warning: each is a part of the document that callers of generated clients would go without.
    const options = ["--output-path", "generated", "--meta", "none", "--config", "config.yaml", "--fail-on-warning"];
    await tools.run("openapi-python-client", ["generate", "--path", document, ...options]);
    const program = join(import.meta.dirname, "openapi-clients/openapi-python-client.py");
    await copyFile(program, join(tools.folder, "calls.py"));
    expect(JSON.parse(await tools.run("python", ["calls.py"], { env }))).toEqual(everyCall);
  } finally {
    await tools.remove();
  }
}, 300_000);
