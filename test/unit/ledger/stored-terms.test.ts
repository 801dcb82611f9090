import { createHmac } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { StoredTerms, searchKeyBytes } from "../../../src/ledger/search/search-index.ts";

test("a stored term is the HMAC that it is said to be, whatever the key, the value and its length", () => {
  const terms = new StoredTerms();
  const key = fc.uint8Array({ minLength: searchKeyBytes, maxLength: searchKeyBytes });
  const value = fc.string({ unit: "binary", maxLength: 300, size: "max" });
  fc.assert(
    fc.property(key, value, fc.constantFrom("request_id" as const, "label" as const), (secret, text, field) => {
      const expected = createHmac("sha256", secret).update(`${field}\0${text}`, "utf8").digest().subarray(0, 16);
      for (let turn = 0; turn < 2; turn++)
        expect(Buffer.from(terms.of(secret, { field, value: text }))).toEqual(expected);
    }),
    {
      examples: [248, 249, 250, 251].map(
        (size) => [new Uint8Array(32), "x".repeat(size), "label"] as [Uint8Array<ArrayBuffer>, string, "label"],
      ),
    },
  );
});

test("keys that say the same are one, and others are not", () => {
  const terms = new StoredTerms();
  const of = (byte: number) => Buffer.from(terms.of(new Uint8Array(32).fill(byte), { field: "label", value: "pii" }));
  expect(of(1)).toEqual(of(1));
  expect(of(1)).not.toEqual(of(2));
});

test("many under one key are what each is by itself, however many values there are", () => {
  const terms = new StoredTerms();
  const key = new Uint8Array(32).fill(3);
  const under = terms.under(key);
  const fields = ["request_id", "label", "subject"] as const;
  const value = fc.integer({ min: 0, max: 200 }).map((number) => `value-${number}`);
  fc.assert(
    fc.property(fc.array(fc.record({ field: fc.constantFrom(...fields), value }), { maxLength: 300 }), (asked) => {
      for (const term of asked) expect(Buffer.from(under(term))).toEqual(Buffer.from(terms.of(key, term)));
    }),
  );
});

test("values that never come again leave the others as they are", () => {
  const terms = new StoredTerms();
  const keys = [1, 2].map((byte) => new Uint8Array(32).fill(byte));
  const term = { field: "label" as const, value: "pii" };
  const before = keys.map((key) => terms.of(key, term));
  for (let i = 0; i < 20_000; i++) terms.of(keys[i % 2] as Uint8Array, { field: "decision_id", value: `${i}` });
  expect(keys.map((key) => terms.of(key, term))).toEqual(before);
});
