/** The Go package: its format, and its own tests. */
import { execFile, execFileSync } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { root } from "./clients-deployment.ts";

const timeout = 600_000;
const source = join(root, "clients/go");

beforeAll(() => {
  execFileSync(process.execPath, ["scripts/proto-deps.ts"], { cwd: root });
  execFileSync(join(source, "build.sh"));
}, timeout);

const run = async (command: string, args: readonly string[]) =>
  (await promisify(execFile)(command, [...args], { cwd: source })).stdout;

test("is formatted, and nothing in it is suspicious", { timeout }, async () => {
  expect(await run("gofmt", ["-l", "."])).toBe("");
  expect(await run("go", ["vet", "./..."])).toBe("");
});

test("passes its own tests, without a race", { timeout }, async () => {
  await run("go", ["test", "-race", "./..."]);
});
