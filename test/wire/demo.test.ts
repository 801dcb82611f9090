/** `npm run demo`: every step is as it should be, it fits a terminal, and the README shows what it says. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");

/** What is another one each time. */
const settled = (line: string) =>
  line.replace(/sha256:[0-9a-f]+…|\d\d:\d\d:\d\d/g, (it) => "·".repeat(it.length)).trimEnd();

test("the demo prints what it promises, in eighty columns", { timeout: 120_000 }, async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ["dev/demo.ts"], { cwd: root });
  const told = stdout.split("\n");
  expect(told.filter((line) => line.length > 80)).toEqual([]);
  expect(told).toContain("16 of 16 calls were answered as they should be.");
  expect(told).toContain("All of it was as it should be.");
  const [, shown = ""] =
    /^## What it does\n.*?^```text\n(.*?)^```/ms.exec(readFileSync(join(root, "README.md"), "utf8")) ?? [];
  const lines = shown.split("\n").filter((line) => line !== "" && !line.includes("  ..."));
  expect(lines.length).toBeGreaterThan(8);
  expect(lines.map(settled).filter((line) => !told.map(settled).includes(line))).toEqual([]);
});
