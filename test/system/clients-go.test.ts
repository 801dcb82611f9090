/** The Go package: its own tests, and its README's program as somebody else would build it, from the archive alone. */
import { execFile, execFileSync } from "node:child_process";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Deployment, root, startDeployment } from "./clients-deployment.ts";

const timeout = 600_000;
const source = join(root, "clients/go");
let archive: string;
let deployment: Deployment;
let folder: string;

beforeAll(async () => {
  execFileSync(process.execPath, ["scripts/proto-deps.ts"], { cwd: root });
  archive = execFileSync(join(source, "build.sh"), { encoding: "utf8" }).trimEnd().split("\n").at(-1) as string;
  folder = await mkdtemp(join(tmpdir(), "svc-clients-go-"));
  deployment = await startDeployment();
  await deployment.startGateway();
}, timeout);
afterAll(async () => {
  await deployment?.stop();
  await rm(folder, { recursive: true });
});

const run = async (command: string, args: readonly string[], cwd: string, env: Readonly<Record<string, string>> = {}) =>
  (await promisify(execFile)(command, [...args], { cwd, env: { ...process.env, ...env } })).stdout;

test("is formatted, and nothing in it is suspicious", { timeout }, async () => {
  expect(await run("gofmt", ["-l", "."], source)).toBe("");
  expect(await run("go", ["vet", "./..."], source)).toBe("");
});

test("passes its own tests, without a race", { timeout }, async () => {
  await run("go", ["test", "-race", "./..."], source);
});

test("the README's program is built from the archive in an empty folder, and is answered", { timeout }, async () => {
  const readme = await readFile(join(source, "README.md"), "utf8");
  const [commands = "", program = ""] = ["sh", "go"].map((language) => block(readme, language));
  await copyFile(archive, join(folder, basename(archive)));
  await writeFile(join(folder, "main.go"), program);
  const installing = commands.split("\n").filter((line) => !line.startsWith("clients/go/build.sh"));
  await run(
    "bash",
    ["-euc", ["go mod init example.com/payroll", ...installing, "go build -o program ."].join("\n")],
    folder,
  );
  expect(await run(join(folder, "program"), [], folder, deployment.clientEnv())).toMatch(/^true [0-9a-f-]{36}\n$/);
});

/** The first block of code in the language. */
function block(markdown: string, language: string): string {
  return new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, "s").exec(markdown)?.[1] ?? "";
}
