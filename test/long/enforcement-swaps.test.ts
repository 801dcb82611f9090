/** The long form of test/wire/enforcement-proofs.test.ts: thousands of proofs put together from several valid ones. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { folderForFile } from "../harness/folder.ts";
import { forTest } from "../harness/lifetimes.ts";
import { makeProofs, startProvers, trySwaps } from "../harness/swapped-proofs.ts";

const folder = folderForFile("swaps");

test("a proof with any part of another proof is refused", async () => {
  const stack = await forTest(startProvers());
  const logKeys = [await stack.logKey(), await stack.logKey("payroll-c")];
  const { tried, held } = await trySwaps(await makeProofs(stack, folder), join(folder, "swapped"), 67, logKeys);
  expect(tried).toBeGreaterThan(2_000);
  expect(held).toEqual([]);
}, 900_000);
