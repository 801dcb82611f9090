import { createHash } from "node:crypto";
import canonicalize from "canonicalize";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { JsonObject } from "../../../src/base/json.ts";
import { encodeRecord, readRecordText } from "../../../src/ledger/append/record-text.ts";
import type { NewRecord } from "../../../src/ledger/ports/record.ts";
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
    idempotency: { ...idempotency, answer: '{"b":["\\n"],"a":1}' },
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
