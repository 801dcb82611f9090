import { createHmac } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { StoredTerms, searchKeyBytes } from "../../../src/ledger/search/search-index.ts";

test("a stored term is an HMAC, for any key, value and length", () => {
  const terms = new StoredTerms();
  const key = fc.uint8Array({ minLength: searchKeyBytes, maxLength: searchKeyBytes });
  const value = fc.string({ unit: "binary", maxLength: 300, size: "max" });
  fc.assert(
    fc.property(key, value, fc.constantFrom("request_id" as const, "label" as const), (secret, text, field) => {
      const expected = createHmac("sha256", secret).update(`${field}\0${text}`, "utf8").digest().subarray(0, 16);
      for (let turn = 0; turn < 2; turn++)
        expect(Buffer.from(terms.under(secret)({ field, value: text }))).toEqual(expected);
    }),
    {
      examples: [248, 249, 250, 251].map(
        (size) => [new Uint8Array(32), "x".repeat(size), "label"] as [Uint8Array<ArrayBuffer>, string, "label"],
      ),
    },
  );
});

test("many terms under one key equal those that are computed alone, for any number of values", () => {
  const key = new Uint8Array(32).fill(3);
  const under = new StoredTerms().under(key);
  const fields = ["request_id", "label", "subject"] as const;
  const value = fc.integer({ min: 0, max: 200 }).map((number) => `value-${number}`);
  fc.assert(
    fc.property(fc.array(fc.record({ field: fc.constantFrom(...fields), value }), { maxLength: 300 }), (asked) => {
      for (const term of asked)
        expect(Buffer.from(under(term))).toEqual(Buffer.from(new StoredTerms().under(key)(term)));
    }),
  );
});
