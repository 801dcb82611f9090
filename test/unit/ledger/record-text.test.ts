import { createHash } from "node:crypto";
import canonicalize from "canonicalize";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { JsonObject, JsonValue } from "../../../src/base/json.ts";
import { encodeRecord, readRecordText } from "../../../src/ledger/append/record-text.ts";
import { sequence } from "../../../src/ledger/append/sequence.ts";
import type { NewRecord } from "../../../src/ledger/ports/record.ts";
import { assertedCanonicalText, canonicalText } from "../../../src/ledger/record/canonical.ts";
import { parseLeaf } from "../../../src/ledger/record/leaf.ts";
import { recordBytes } from "../../../src/ledger/record/record.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "../../contract/ledger-records.ts";

const makeRecord = recordMaker(manualClock(), seededRandom());
const alice = tenant("alice");
const place = { log: "o/1", recordedAt: "2026-01-02T03:04:05.006Z" };

/** The record as the format says it, by the library and from no text. */
function plainly({ recordId, requestId, tenantId, kind, route, request, outcome, caller }: NewRecord): string {
  const digest = createHash("sha256")
    .update(String(canonicalize(request)))
    .digest("hex");
  const { principal_id, subject, auth_source } = caller;
  return String(
    canonicalize({
      kind,
      record_id: recordId,
      log: place.log,
      tenant_id: tenantId,
      recorded_at: place.recordedAt,
      request_id: requestId,
      caller: { principal_id, subject, auth_source },
      route,
      request,
      request_digest: `sha256:${digest}`,
      outcome,
    }),
  );
}

const text = fc.string({
  unit: fc.constantFrom("a", "B", "1", "\n", "\r", '"', "\\", "\\u", "\u0001", "\u2028", "é", "😀"),
});
const json = fc.dictionary(text, fc.jsonValue({ maxDepth: 4 })) as fc.Arbitrary<JsonObject>;

test("the bytes of any record are its canonical JSON", () => {
  fc.assert(
    fc.property(json, json, text, text, (request, outcome, subject, route) => {
      const made = makeRecord(alice);
      const record = { ...made, request, outcome, route, caller: { ...made.caller, subject } };
      expect(Buffer.from(recordBytes(encodeRecord(record), place)).toString()).toBe(plainly(record));
    }),
  );
});

test("the text has everything that a store must know of a record", () => {
  const idempotency = { scope: "ab", payloadDigest: "sha256:1", answer: { b: ["\n"], a: 1 } };
  const request = { decision_id: "d", artifact_digest: "x:1", artifact_cid: "c" };
  const record = makeRecord(alice, { kind: "evidence", idempotency, request, outcome: { artifact_cid: "c" } });
  const encoded = encodeRecord(record);
  expect(readRecordText(encoded.text)).toEqual(JSON.parse(JSON.stringify(encoded)));
  expect(encoded).toEqual({
    ...record,
    text: encoded.text,
    idempotency: { scope: "ab", payloadDigest: "sha256:1" },
    answer: '{"b":["\\n"],"a":1}',
    request: '{"artifact_cid":"c","artifact_digest":"x:1","decision_id":"d"}',
    outcome: '{"artifact_cid":"c"}',
    terms: [
      { field: "decision_id", value: "d" },
      { field: "artifact_digest", value: "x:1" },
      { field: "cid", value: "c" },
    ],
  });
  const plain = makeRecord(alice, { request: {} });
  expect(readRecordText(encodeRecord(plain).text)).not.toHaveProperty("terms");
});

test("a text with inconsistent lines is no record's", () => {
  const answer = { scope: "ab", payloadDigest: "sha256:1", answer: {} };
  const [plain, kept] = [{}, { idempotency: answer }].map((changes) => encodeRecord(makeRecord(alice, changes)).text);
  expect(() => readRecordText(`${plain}\n{}`)).toThrow(TypeError);
  expect(() => readRecordText((kept as string).split("\n").slice(0, 3).join("\n"))).toThrow(TypeError);
  expect(() => readRecordText(`${kept}\n{}`)).toThrow(TypeError);
  expect(() => readRecordText((plain as string).split("\n").slice(0, 2).join("\n"))).toThrow(TypeError);
});

test("a record has at most 32 levels of nesting", () => {
  const levels = (count: number): JsonObject => (count === 1 ? {} : { a: levels(count - 1) });
  encodeRecord(makeRecord(alice, { request: levels(31), outcome: levels(31) }));
  expect(() => encodeRecord(makeRecord(alice, { request: levels(32) }))).toThrow("deeper than 32");
  expect(() => encodeRecord(makeRecord(alice, { outcome: levels(32) }))).toThrow("deeper than 32");
});

test("every entry has its own opening", () => {
  const record = () => encodeRecord(makeRecord(alice));
  const sequencing = { nowMs: manualClock().now(), random: seededRandom("seed"), originPrefix: "o" };
  const { entries } = sequence(undefined, [record(), record(), record()], sequencing);
  expect(new Set(entries.map(({ opening }) => Buffer.from(opening).toString("hex"))).size).toBe(4);
});

test("a leaf of another version is not read", () => {
  expect(() => parseLeaf(Buffer.from('{"v":2}'))).toThrow("unknown version");
});

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
  expect(() => assertedCanonicalText(value as JsonValue, 0)).toThrow(message);
  expect(() => assertedCanonicalText({ b: value as JsonValue, a: 1 }, 0), "members out of order").toThrow(message);
});

test("existing levels of nesting count", () => {
  const levels = (count: number) => Array.from({ length: count }).reduce<JsonValue>((inner) => [inner], 1);
  expect(assertedCanonicalText(levels(31), 1)).toBe(JSON.stringify(levels(31)));
  expect(() => assertedCanonicalText(levels(32), 1)).toThrow("deeper than 32");
});

test("accepts 32 levels, null, and undefined members", () => {
  const nested = Array.from({ length: 32 }).reduce((inner) => [inner], 1);
  for (const value of [nested, { a: null, b: undefined, c: [true, "é", -0, 1e-9] }]) assertedCanonicalText(value, 0);
});
