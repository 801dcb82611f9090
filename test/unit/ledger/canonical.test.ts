import canonicalize from "canonicalize";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { JsonValue } from "../../../src/base/json.ts";
import {
  assertCanonical,
  assertedCanonicalText,
  assertedJsonText,
  canonicalText,
} from "../../../src/ledger/record/canonical.ts";

test("sorts members by UTF-16 code units (RFC 8785 §3.2.3) and omits undefined ones", () => {
  const value = {
    "\u20ac": 1,
    "\r": 2,
    "\ufb33": 3,
    "1": 4,
    "\ud83d\ude00": 5,
    "\u0080": 6,
    "\u00f6": 7,
    gone: undefined,
  };
  const text = canonicalText(value);
  expect(text).toBe('{"\\r":2,"1":4,"\u0080":6,"ö":7,"€":1,"😀":5,"\ufb33":3}');
});

test("ordered members are written as unordered ones", () => {
  const sorted = (value: JsonValue): JsonValue =>
    typeof value !== "object" || value === null
      ? value
      : Array.isArray(value)
        ? value.map(sorted)
        : Object.fromEntries(
            Object.entries(value)
              .sort(([a], [b]) => (a < b ? -1 : 1))
              .map(([name, member]) => [name, sorted(member as JsonValue)]),
          );
  const text = fc.string({ unit: fc.constantFrom("a", "b", "B", "1", "2", "\\", "\u0001", "é", "\ufb33", "😀") });
  const { value } = fc.letrec<{ value: JsonValue }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.oneof(
        text,
        fc.integer(),
        fc.boolean(),
        fc.constant(null),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
      ),
      fc.array(tie("value")),
      fc.dictionary(text, tie("value")),
    ),
  }));
  fc.assert(
    fc.property(value, (given) => {
      expect(canonicalText(given)).toBe(canonicalize(given));
      expect(canonicalText(sorted(given))).toBe(canonicalize(given));
      expect(assertedJsonText(given)).toBe(JSON.stringify(given));
      expect(assertedCanonicalText(given, 0)).toBe(canonicalize(given));
      expect(assertedCanonicalText(sorted(given), 0)).toBe(canonicalize(given));
    }),
  );
});

test.each([
  ["a lone surrogate", "\udfff", "not well-formed"],
  ["U+0000", { a: ["\0"] }, "U+0000"],
  ["U+0000 in a name", { "\0": 1 }, "U+0000"],
  ["infinity", [Number.POSITIVE_INFINITY], "not finite"],
  ["undefined in a list", [undefined], "undefined"],
  ["a function", { a: () => 1 }, "function"],
  ["something with its own form in JSON", { a: new Date(0) }, "not plain"],
  ["33 levels", Array.from({ length: 33 }).reduce((inner) => [inner], 1), "deeper than 32"],
])("refuses %s", (_, value, message) => {
  expect(() => assertCanonical(value)).toThrow(message);
  expect(() => assertedJsonText(value)).toThrow(message);
  expect(() => assertedCanonicalText(value as JsonValue, 0)).toThrow(message);
  expect(() => assertedCanonicalText({ b: value as JsonValue, a: 1 }, 0), "members out of order").toThrow(message);
});

test("existing levels of nesting count", () => {
  const levels = (count: number) => Array.from({ length: count }).reduce<JsonValue>((inner) => [inner], 1);
  expect(assertedCanonicalText(levels(31), 1)).toBe(JSON.stringify(levels(31)));
  expect(() => assertedCanonicalText(levels(32), 1)).toThrow("deeper than 32");
});

test("accepts 32 levels, null, and undefined members", () => {
  assertCanonical(Array.from({ length: 32 }).reduce((inner) => [inner], 1));
  assertCanonical({ a: null, b: undefined, c: [true, "é", -0, 1e-9] });
});
