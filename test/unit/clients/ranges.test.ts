/** The TypeScript package's verifier on answers that have one receipt for all items, as every language is held to them. */
import { join } from "node:path";
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type VerifiedReceipt, verifyOpening, verifyRange } from "../../../clients/typescript/src/receipts.ts";
import { ItemOutcome, RangeLeafSchema, RangeReceiptSchema } from "../../../gen/platform/bulk/v1/common_pb.ts";
import { type RangeVector, rangeVectors } from "../ledger/range-vectors.ts";

const file = join(import.meta.dirname, "../../../clients/conformance/vectors/ranges.json");
const note =
  "Answers to bulk calls as far as their receipts go. One with a reason in `refused` must be refused, every other one " +
  "holds, and where `records` are there each is the one that its item's leaf commits to. Made by " +
  "test/unit/ledger/range-vectors.ts: `vitest run -u` writes the file anew.";
const text = `${JSON.stringify({ note, ranges: rangeVectors() }, null, 2)}\n`;
const { ranges } = JSON.parse(text) as { ranges: RangeVector[] };

test("the file has what the service's own code writes", async () => {
  await expect(text).toMatchFileSnapshot(file);
});

const leafOf = (leaf: unknown) => (leaf === undefined ? undefined : fromJson(RangeLeafSchema, leaf as JsonValue));

async function verify({ answer, log_key, records }: RangeVector): Promise<readonly (VerifiedReceipt | undefined)[]> {
  const { receipt } = answer;
  const items = answer.items.map(({ outcome, leaf, decision, ...members }) => ({
    ...members,
    outcome: ItemOutcome[outcome.toUpperCase() as keyof typeof ItemOutcome],
    leaf: leafOf(leaf),
    decision: decision && { decisionId: decision.decision_id },
  }));
  const message = receipt && fromJson(RangeReceiptSchema, receipt as unknown as JsonValue);
  const proven = await verifyRange({ receipt: message, items }, log_key);
  return Promise.all(
    proven.map((place, i) => {
      const [leaf, record] = [items[i]?.leaf, records?.[i]];
      return place && leaf && record ? verifyOpening(place, leaf, record) : place;
    }),
  );
}

test.each(ranges.map((vector) => ({ ...vector })))("$name: $refused", async (vector) => {
  if (vector.refused !== undefined) {
    await expect(verify(vector)).rejects.toMatchObject({ name: "ReceiptError" });
    return;
  }
  const proven = await verify(vector);
  expect(proven.map((place) => place?.leafIndex)).toEqual(vector.answer.items.map(({ leaf }) => leaf?.leaf_index));
  if (vector.records !== undefined)
    expect(proven.map((place) => place?.record?.record_id)).toEqual(
      vector.answer.items.map(({ leaf }) => leaf?.record_id),
    );
});

test("names are of one vector each, and each way to be wrong is in one of them", () => {
  expect(new Set(ranges.map(({ name }) => name)).size).toBe(ranges.length);
  expect(ranges.filter(({ refused }) => refused !== undefined).length).toBeGreaterThan(20);
});

test("no answer holds of which a character was changed", async () => {
  const good = ranges.filter(({ refused, records }) => refused === undefined && records !== undefined);
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...good), fc.nat(), fc.constantFrom(..."0aA=+/ \n"), async (vector, at, put) => {
      const { items, receipt } = vector.answer;
      const places: [object: Record<string, unknown>, name: string][] = [];
      const changed = structuredClone({ items, receipt }) as unknown as RangeVector["answer"];
      for (const each of [changed.receipt, ...changed.items.map(({ leaf }) => leaf)])
        for (const [name, value] of Object.entries(each ?? {}))
          if (typeof value === "string") places.push([each as never, name]);
      for (const [i] of (changed.receipt?.nodes ?? []).entries())
        places.push([changed.receipt?.nodes as never, String(i)]);
      const [object, name] = places[at % places.length] as [Record<string, string>, string];
      const value = object[name] as string;
      const place = at % value.length;
      fc.pre(value[place] !== put);
      object[name] = value.slice(0, place) + put + value.slice(place + 1);
      await expect(verify({ ...vector, answer: changed })).rejects.toThrow();
    }),
    { numRuns: 500 },
  );
});
