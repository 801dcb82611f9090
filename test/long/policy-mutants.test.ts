import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";

test("an evaluator that is broken, in any of many ways, disagrees with Cedar on policies at random", async () => {
  const run = await promisify(execFile)(process.execPath, ["test/harness/policy-mutants.ts"]);
  expect(run.stdout).toMatch(/^\d+ mutants, of which 0 live$/m);
}, 600_000);
