/** The long form of test/wire/enforcement-proofs.test.ts: thousands of proofs put together from several valid ones. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeProofs, startProvers, trySwaps } from "../harness/swapped-proofs.ts";

test("a proof with any part of another proof is refused", async () => {
  const stack = await startProvers();
  const folder = mkdtempSync(join(tmpdir(), "swaps-"));
  try {
    const logKeys = [await stack.logKey(), await stack.logKey("payroll-c")];
    const { tried, held } = await trySwaps(await makeProofs(stack, folder), join(folder, "swapped"), 67, logKeys);
    expect(tried).toBeGreaterThan(2_000);
    expect(held).toEqual([]);
  } finally {
    await stack.stop();
    rmSync(folder, { recursive: true });
  }
}, 900_000);
