/** The TypeScript package's verifier on answers that have one receipt for all items, as every language is held to them. */
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, test } from "vitest";
import vectors from "../../../clients/conformance/vectors/ranges.json" with { type: "json" };
import { type VerifiedReceipt, verifyOpening, verifyRange } from "../../../clients/typescript/src/receipts.ts";
import { ItemOutcome, RangeLeafSchema, RangeReceiptSchema } from "../../../gen/platform/bulk/v1/common_pb.ts";

interface RangeVector {
  readonly name: string;
  readonly log_key: string;
  readonly answer: {
    readonly receipt?: object & { readonly nodes: readonly string[] };
    readonly items: readonly {
      readonly outcome: string;
      readonly decision?: { readonly decision_id: string };
      readonly ingestion?: object;
      readonly leaf?: { readonly record_id: string; readonly leaf_index: number };
    }[];
  };
  /** Text of the record of each item that has one, if it is shown too. */
  readonly records?: readonly (string | null)[];
  /** Why it must be refused; absent if it holds. */
  readonly refused?: string;
}
const ranges: readonly RangeVector[] = vectors.ranges;

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

test("each name occurs in one vector, and each fault in one of them", () => {
  expect(new Set(ranges.map(({ name }) => name)).size).toBe(ranges.length);
  const wrong = ranges.filter(({ refused }) => refused !== undefined).map(({ name }) => name);
  expect(wrong.length).toBeGreaterThan(20);
  expect(wrong).toContain("an answered item that says it was refused");
});

test("no answer verifies with a changed character", async () => {
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
