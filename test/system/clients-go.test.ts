/** The Go package: its format, and its own tests. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { root } from "./clients-deployment.ts";
import { buildClient } from "./clients-programs.ts";

const timeout = 600_000;
const source = join(root, "clients/go");

beforeAll(() => buildClient("go"), timeout);

const run = async (command: string, args: readonly string[]) =>
  (await promisify(execFile)(command, [...args], { cwd: source })).stdout;

test("is formatted, and nothing in it is suspicious", { timeout }, async () => {
  expect(await run("gofmt", ["-l", "."])).toBe("");
  expect(await run("go", ["vet", "./..."])).toBe("");
});

test("passes its own tests, without a race", { timeout }, async () => {
  await run("go", ["test", "-race", "./..."]);
});
