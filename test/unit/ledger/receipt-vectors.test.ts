/** The vectors that clients of every language verify: that they are these, and that the service says the same of them. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseBase64 } from "../../../src/base/text-forms.ts";
import { type GivenReceipt, type VerifiedReceipt, verifyReceipt } from "../../../src/ledger/record/receipt.ts";
import { verifyConsistency } from "../../../src/ledger/tlog/tree-verify.ts";
import { parseTrustedKey } from "../../../src/ledger/tlog/trusted-key.ts";
import { type ReceiptVector, receiptVectors } from "./receipt-vectors.ts";

const file = join(import.meta.dirname, "../../../clients/conformance/vectors/receipts.json");
const note =
  "Receipts as answers carry them. One with a reason in `refused` must be refused, every other one holds. " +
  "`consistency` names two that hold, and says whether the proof shows that the later log continues the earlier one. " +
  "Made by test/unit/ledger/receipt-vectors.ts: `vitest run -u` writes the file.";
const text = `${JSON.stringify({ note, ...receiptVectors() }, null, 2)}\n`;
const { receipts, consistency } = JSON.parse(text) as ReturnType<typeof receiptVectors>;

test("the file has what the service's own code writes", async () => {
  await expect(text).toMatchFileSnapshot(file);
});

function verify({ receipt, log_key }: ReceiptVector): VerifiedReceipt {
  const key = parseTrustedKey(log_key);
  if (key === undefined) throw new Error("the key cannot be read");
  return verifyReceipt(receipt as unknown as GivenReceipt, key);
}

test.each(receipts.map((vector) => ({ ...vector })))("$name: $refused", (vector) => {
  if (vector.refused === undefined) {
    const isWhole = vector.receipt.leaf !== undefined;
    expect(verify(vector).record?.record_id).toBe(isWhole ? vector.receipt.record_id : undefined);
  } else {
    expect(() => verify(vector)).toThrow(expect.objectContaining({ name: "NoteError" }));
  }
});

test("names are of one vector each, and each way to be wrong is in one of them", () => {
  expect(new Set(receipts.map(({ name }) => name)).size).toBe(receipts.length);
  expect(receipts.filter(({ refused }) => refused !== undefined).length).toBeGreaterThan(50);
});

test("proofs of consistency show what they say", () => {
  const treeOf = (name: string) => {
    const { treeSize, root } = verify(receipts.find((each) => each.name === name) as ReceiptVector);
    return { size: treeSize, root };
  };
  for (const { earlier, later, proof, continues } of consistency) {
    const hashes = proof.split("\n").flatMap((line) => (line === "" ? [] : [parseBase64(line) ?? new Uint8Array(0)]));
    expect(verifyConsistency(treeOf(earlier), treeOf(later), hashes), `${earlier}, ${later}`).toBe(continues);
  }
});
