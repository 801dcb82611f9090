import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  findReceipt,
  type GivenReceipt,
  keysIn,
  verifyCheckpoint,
  verifyFile,
  verifyGiven,
  verifyRecord,
} from "../src/verify.ts";

interface Vector {
  readonly name: string;
  readonly log_key: string;
  readonly receipt: GivenReceipt;
  readonly refused?: string;
}

const path = new URL("../../clients/conformance/vectors/receipts.json", import.meta.url);
const vectors: readonly Vector[] = JSON.parse(readFileSync(path, "utf8")).receipts;
const full = vectors.find(({ refused, receipt }) => refused === undefined && receipt.record !== undefined) as Vector;

test.each(vectors.filter(({ receipt }) => findReceipt(receipt) !== undefined))(
  "published vector: $name",
  async (vector) => {
    const verified = await verifyGiven(vector.receipt, [vector.log_key]).then(
      () => undefined,
      (error: Error) => error.message,
    );
    expect(verified === undefined).toBe(vector.refused === undefined);
  },
);

test("a record is verified by a receipt that shows it, and not by a brief one that names its id", async () => {
  const { receipt, log_key: key } = full;
  const { leaf: _, opening: __, record: ___, ...brief } = receipt;
  const shown = await verifyRecord(receipt.record_id, receipt, [key]);
  expect(shown.record.record_id).toBe(receipt.record_id);
  await expect(verifyGiven({ ...brief, record_id: "another" }, [key])).resolves.not.toHaveProperty("record");
  await expect(verifyRecord("another", { ...brief, record_id: "another" }, [key])).rejects.toThrow("brief");
  await expect(verifyRecord("another", receipt, [key])).rejects.toThrow("of another record");
});

describe("a file", () => {
  const { receipt, log_key: key } = full;

  test("with an answer shows the record of its receipt", async () => {
    const text = JSON.stringify({ service: "x", decision: { allow: true, receipt } });
    const { record, origin } = await verifyFile(text, [key]);
    expect([record?.record_id, origin]).toEqual([receipt.record_id, receipt.log_origin]);
  });

  test("with a checkpoint shows its size", async () => {
    const note = receipt.proof.slice(receipt.proof.indexOf("\n\n") + 2);
    expect(await verifyFile(note, [key])).toMatchObject({ size: receipt.tree_size });
    await expect(verifyCheckpoint(note.replace(/^\S+/, "$&x"), [key])).rejects.toThrow();
  });

  test("with one changed character of the record is refused", async () => {
    const record = receipt.record as string;
    const changed = record.replace(/^./, (first) => (first === "A" ? "B" : "A"));
    const text = JSON.stringify({ receipt: { ...receipt, record: changed } });
    await expect(verifyFile(text, [key])).rejects.toThrow("record is not the one that its leaf commits to");
  });

  test.each([
    ["a key of another log", JSON.stringify(receipt), key.replace(/^[^+]+/, "$&x"), "key"],
    ["no key", JSON.stringify(receipt), "", "paste the key"],
    ["no receipt", '{"service":"x"}', key, "the file has no receipt"],
    ["broken JSON", '{"receipt":', key, "neither JSON nor a checkpoint"],
    ["anything else", "%PDF-1.7", key, "checkpoint"],
  ])("with %s is refused with the reason", async (_, text, keys, message) => {
    await expect(verifyFile(text, keysIn(keys))).rejects.toThrow(message);
  });
});
