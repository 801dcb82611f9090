/** Clients that public generators make of the document make all eight calls, whatever their language. */
import { copyFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { folderForFile } from "../harness/folder.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { runProgram } from "../harness/process.ts";
import { pythonForFile } from "../harness/python.ts";
import { root } from "./clients-deployment.ts";

const openApiGenerator = "org.openapitools:openapi-generator-cli:7.25.0";
const document = join(root, "gen/openapi.json");
const timeout = 300_000;

/** Programs by the generator of their client, with the generator's options, and where they stand beside it. */
const generated: Readonly<Record<string, readonly [program: string, to: string, options?: object]>> = {
  python: ["python.py", "calls.py"],
  java: ["Calls.java", "src/main/java/Calls.java"],
  // Without the prefix the words that two enumerations share clash: Go's constants have one name space.
  go: [
    "calls.go",
    "../calls.go",
    {
      ...{ gitHost: "example.com", gitUserId: "svc", gitRepoId: "platform" },
      additionalProperties: { enumClassPrefix: true },
    },
  ],
  "typescript-fetch": ["calls.ts", "calls.ts"],
};

const folder = folderForFile("openapi-clients");
const gateway = await gatewayForFile();
const [, , , plan, policy, key, artifact, event] = sampleCalls().map(({ body }) => body);
/** Environment of a program, with a token of its own: compiling takes minutes. */
const environment = async () => ({
  PLATFORM_URL: gateway.url,
  PLATFORM_TOKEN: await gateway.token(),
  SAMPLES: JSON.stringify({ plan, policy, key, artifact, event }),
});
const programs = join(import.meta.dirname, "openapi-clients");
// Packages of Python go through their installer once.
const python = await generateAll().then(() => pythonForFile(join(folder, "python"), "openapi-python-client==0.29.1"));

/** Makes all clients in one run of the generator, and puts the programs beside them. */
async function generateAll(): Promise<void> {
  const copy = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy";
  const copied = [`-Dartifact=${openApiGenerator}`, `-DoutputDirectory=${folder}`, "-Dmdep.stripVersion=true"];
  await run("mvn", ["--quiet", "--batch-mode", copy, ...copied]);
  const configurations: string[] = [];
  for (const [generatorName, [, , options]] of Object.entries(generated)) {
    const configuration = { generatorName, inputSpec: document, outputDir: join(folder, generatorName), ...options };
    configurations.push(join(folder, `${generatorName}.json`));
    await writeFile(configurations.at(-1) as string, JSON.stringify(configuration));
  }
  // It is over before the better compiler of Java would pay.
  const java = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", join(folder, "openapi-generator-cli.jar")];
  await run("java", [...java, "batch", "--fail-fast", "--threads", "1", ...configurations]);
  for (const [generatorName, [program, to]] of Object.entries(generated))
    await copyFile(join(programs, program), join(folder, generatorName, to));
}

async function run(command: string, args: readonly string[], cwd = folder): Promise<string> {
  return runProgram(command, args, { cwd, env: { ...process.env, ...(await environment()) } });
}

const everyCall = {
  routes: 8,
  tenant: "tenant-a",
  plaintext_to_platform: false,
  allow: [true, true, true],
  registered: true,
  ingested: true,
};

test("Python, by OpenAPI Generator", { timeout }, async () => {
  expect(
    JSON.parse(await python.run("python", [join(folder, "python/calls.py")], { env: await environment() })),
  ).toEqual(everyCall);
});

test("Java, by OpenAPI Generator", { timeout }, async () => {
  const client = join(folder, "java");
  await run("mvn", ["--quiet", "--batch-mode", "package", "-Dmaven.test.skip", "-Dmaven.javadoc.skip"], client);
  const classPath = ["target/classes", "target/lib/*"].map((path) => join(client, path)).join(":");
  expect(JSON.parse(await run("java", ["-cp", classPath, "Calls"]))).toEqual(everyCall);
});

test("Go, by OpenAPI Generator", { timeout }, async () => {
  const client = join(folder, "go");
  await rm(join(client, "test"), { recursive: true, force: true });
  await run("go", ["mod", "init", "example.com/svc/calls"]);
  const module = "example.com/svc/platform";
  await run("go", ["mod", "edit", `-require=${module}@v0.0.0`, `-replace=${module}=${client}`]);
  await run("go", ["build", "-o", "calls", "calls.go"]);
  expect(JSON.parse(await run("./calls", []))).toEqual(everyCall);
});

test("TypeScript, by OpenAPI Generator", { timeout }, async () => {
  const client = join(folder, "typescript-fetch");
  const options = { target: "es2022", module: "esnext", moduleResolution: "bundler" };
  const compilerOptions = { strict: true, noEmit: true, ...options };
  await writeFile(join(client, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["calls.ts"] }));
  await run(join(root, "node_modules/.bin/tsc"), ["--project", client]);
  await run(join(root, "node_modules/.bin/rolldown"), ["calls.ts", "--format", "esm", "--file", "calls.mjs"], client);
  expect(JSON.parse(await run(process.execPath, ["calls.mjs"], client))).toEqual(everyCall);
});

test("Python, by openapi-python-client", { timeout }, async () => {
  await writeFile(join(python.folder, "config.yaml"), "post_hooks: []\n");
  // Fails on every warning: each is a part of the document that callers of generated clients would go without.
  const options = ["--output-path", "generated", "--meta", "none", "--config", "config.yaml", "--fail-on-warning"];
  await python.run("openapi-python-client", ["generate", "--path", document, ...options]);
  await copyFile(join(programs, "openapi-python-client.py"), join(python.folder, "calls.py"));
  expect(JSON.parse(await python.run("python", ["calls.py"], { env: await environment() }))).toEqual(everyCall);
});
