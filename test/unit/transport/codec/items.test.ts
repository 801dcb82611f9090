/** Items are taken out of a text before it is parsed: what is taken is what a parser of the whole would find. */

import fc from "fast-check";
import { expect, test } from "vitest";
import { BulkDecisionService } from "../../../../gen/platform/bulk/v1/decisions_pb.ts";
import { ServiceError } from "../../../../src/base/errors.ts";
import { itemField, splitItems } from "../../../../src/transport/codec/items.ts";

const field = itemField(BulkDecisionService.method.planProtections.input);
if (field === undefined) throw new Error("a bulk request has items");

/** What was taken: the items, and what is left. */
function taken(text: string): { items: unknown[]; rest: unknown } | "not JSON" {
  try {
    const { parts, rest } = splitItems(field as NonNullable<typeof field>, text);
    return parts.length > 0
      ? { items: parts.map((part) => JSON.parse(String(part))), rest: JSON.parse(String(rest)) }
      : "not JSON";
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof ServiceError) return "not JSON";
    throw error;
  }
}

function parsed(text: string): { items: unknown[] } | "not JSON" {
  try {
    const value = JSON.parse(text);
    return Array.isArray(value?.items) && value.items.length > 0 ? value : "not JSON";
  } catch {
    return "not JSON";
  }
}

/** What stands in a text of JSON, and what some readers take for it. */
const piece = fc.oneof(
  { arbitrary: fc.constantFrom(...'{}[],:"\\ \t\n\r'), weight: 4 },
  { arbitrary: fc.constantFrom("\u00a0", "\ufeff", "\u2028", "\u2029", "\u000b", "\f", "\u3000", "\u0085"), weight: 1 },
  {
    arbitrary: fc.constantFrom("0", "-1e9", "true", "null", '"a"', '"]"', '"\\""', '"\\\\"', '"items"', "{}", "[]"),
    weight: 3,
  },
);
const item = fc.oneof(
  { arbitrary: fc.json(), weight: 2 },
  { arbitrary: fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join("")), weight: 1 },
);
const body = fc
  .record({ items: fc.array(item, { maxLength: 4 }), before: item, after: item, isPlain: fc.boolean() })
  .map(({ items, before, after, isPlain }) =>
    isPlain ? `{"items":[${items.join(",")}]}` : `{"a":${before},"items":[${items.join(",")}],"b":${after}}`,
  );
/** With one piece put in somewhere, and one character taken out. */
const damaged = fc.tuple(body, piece, fc.nat(), fc.nat()).map(([text, put, at, gone]) => {
  const place = at % (text.length + 1);
  const longer = text.slice(0, place) + put + text.slice(place);
  return gone % 3 === 0 ? longer : longer.slice(0, gone % longer.length) + longer.slice((gone % longer.length) + 1);
});

test("what is taken as JSON is JSON, and its items are those of a parser", () => {
  fc.assert(
    fc.property(fc.oneof(body, damaged), (text) => {
      const found = taken(text);
      const expected = parsed(text);
      // Items that come twice are refused when the rest is read; their name is taken as it is written, without escapes.
      if (text.split('"items"').length !== 2) return;
      if (found === "not JSON" || expected === "not JSON") expect(found, text).toBe(expected);
      else expect(found.items, text).toEqual(expected.items);
    }),
    { numRuns: 5_000 },
  );
});
