import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { digestWarnings } from "../../../../src/domain/answer.ts";
import {
  digestOddities,
  hashNames,
  hashOfDigest,
  isDigestOf,
  parseDigest,
} from "../../../../src/ledger/artifacts/digest.ts";

test.each([
  [`sha256:${"a".repeat(64)}`, []],
  [`sha256:${"A".repeat(64)}`, []],
  [`sha-512:${"0".repeat(128)}`, []],
  [`sha3-384:${"0".repeat(96)}`, []],
  [`blake2b:${"0".repeat(128)}`, []],
  [`blake3:${"0".repeat(64)}`, []],
  [`blake3:${"0".repeat(63)}`, ["not_hex"]],
  ["sha256:integration-full-plaintext", ["not_hex"]],
  [`sha256:${"g".repeat(64)}`, ["not_hex"]],
  [`sha256:${"a".repeat(64)}\n`, ["not_hex"]],
  [`sha1:${"0".repeat(40)}`, ["weak"]],
  ["md5:x", ["not_hex", "weak"]],
  ["house-tree:anything", []],
])("%j: %j", (digest, oddities) => expect(digestOddities(digest)).toEqual(oddities));

test("a digest is split at its first colon", () => {
  expect(parseDigest("sha256:a:b\nc")).toEqual({ algorithm: "sha256", value: "a:b\nc" });
  for (const text of ["sha256", "sha256:", ":a", "SHA256:a", "-a:b"]) expect(parseDigest(text)).toBeUndefined();
});

test("any spelling of a hash is that hash, and nothing else is", () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.uint8Array(), fc.constantFrom(...hashNames), (bytes, others, name) => {
      const hash = createHash(name).update(bytes).digest();
      const other = createHash(name).update(others).digest("hex");
      const hex = hash.toString("hex");
      const spellings = [hex, hex.toUpperCase(), hash.toString("base64"), hash.toString("base64url")];
      for (const value of spellings) expect(isDigestOf(`x:${value}`, hex)).toBe(true);
      expect(isDigestOf(`x:${other}`, hex)).toBe(other === hex);
      expect(isDigestOf(`x:${hex.slice(2)}`, hex)).toBe(false);
    }),
  );
});

test("every known hash has its expected length", () => {
  for (const algorithm of ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha512-256", "blake2b", "blake2s"]) {
    const name = hashOfDigest(`${algorithm}:x`);
    if (name === undefined) throw new Error(algorithm);
    expect(digestOddities(`${algorithm}:${createHash(name).digest("hex")}`)).not.toContain("not_hex");
  }
  expect(hashOfDigest("blake3:x")).toBeUndefined();
  expect(hashOfDigest("nonsense")).toBeUndefined();
});

test("warnings name the member and never repeat the value", () => {
  fc.assert(
    fc.property(fc.string({ minLength: 12 }), (value) => {
      for (const warning of digestWarnings("content_digest", `md5:${value}`)) {
        expect(warning.startsWith("content_digest ")).toBe(true);
        expect(warning).not.toContain(value);
      }
    }),
  );
});
