import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test, vi } from "vitest";
import { operatorOf, parseOpsCredentials } from "../../../src/credentials/ops-credentials.ts";
import { directory, eachInDirectory, erasing, refused, run as runCommand } from "./surroundings.ts";

let path: string;

eachInDirectory();
beforeEach(() => {
  path = join(directory, "secrets", "operators");
  vi.stubEnv("SVC_OPS_CREDENTIALS", path);
});

const run = (...commandLine: string[]) => runCommand("operators", ...commandLine);

test("a token is shown once, and the private file has its hash only", async () => {
  const { out, code } = await run("add", "--name", "olga");
  const token = out.trimEnd().split("\n").at(-1) ?? "";
  expect(code).toBe(0);
  expect(token).toMatch(/^[A-Za-z0-9_-]{43}$/);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  const text = readFileSync(path, "utf8");
  expect(text).not.toContain(token);
  expect(operatorOf(parseOpsCredentials(text), token)).toBe("olga");
  expect(operatorOf(parseOpsCredentials(text), `${token}x`)).toBeUndefined();
});

test("names are listed and removed, and each exists once", async () => {
  expect((await run("list")).out).toBe("no credentials\n");
  const { name, token } = JSON.parse((await run("add", "--name", "olga", "--json")).out);
  expect([name, token]).toEqual(["olga", expect.stringMatching(/^.{43}$/)]);
  await run("add", "--name", "otto");
  await refused(run("add", "--name", "otto"), "--name: otto exists already: remove it first\n");
  expect(JSON.parse((await run("list", "--json")).out)).toEqual({ ok: true, names: ["olga", "otto"] });
  expect((await run("remove", "--name", "olga", ...erasing)).code).toBe(0);
  expect((await run("list")).out).toBe("otto\n");
  await refused(run("remove", "--name", "olga"), "--name: no operator has the name olga\n");
});

test.each(["", "a b", "a:b", "x".repeat(65)])("%j is no name", async (name) => {
  expect((await run("add", "--name", name)).err).toContain("--name: must be 1 to 64 letters");
});

test.each([
  ["a line without a hash", "olga\n", "line 1 is not a name and a SHA-256"],
  ["a short hash", `olga:${"a".repeat(63)}\n`, "line 1 is not a name and a SHA-256"],
  ["a name that comes twice", `o:${"a".repeat(64)}\n\no:${"b".repeat(64)}\n`, "line 3 repeats a name"],
])("%s is refused, and left unchanged", async (_, text, problem) => {
  await run("add", "--name", "first");
  writeFileSync(path, text);
  for (const command of [["list"], ["add", "--name", "otto"], ["remove", "--name", "olga"]])
    await refused(run(...command), `SVC_OPS_CREDENTIALS: ${problem}`);
  expect(readFileSync(path, "utf8")).toBe(text);
});
