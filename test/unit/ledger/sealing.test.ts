import { createHmac, hkdfSync } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { open, openingBytes, seal, verifyCommitment } from "../../../src/ledger/record/sealing.ts";

const opening = Uint8Array.from({ length: openingBytes }, (_, index) => index);
const record = Buffer.from('{"kind":"decision"}');

// The values were computed with other implementations of HKDF, HMAC and AES-GCM.
test("the stored format is stable: a record, its commitment and its sealed bytes", () => {
  const key = new Uint8Array(hkdfSync("sha256", opening, "", "platform-ledger/v1/commitment", 32));
  const { commitment, sealed } = seal(record, opening);
  expect(commitment).toBe(`hmac-sha256:${createHmac("sha256", key).update(record).digest("hex")}`);
  expect(commitment).toBe("hmac-sha256:3ca1f804c7dcc60d7b10fbd6fe72e82287999198f7e959ac481d98f49f4e2446");
  expect(Buffer.from(sealed).toString("hex")).toBe(
    "01b98e5a7d0d2412adfb30b2116d9656cde449bb27be976969820465629bbe6de7fd618a",
  );
});

test("everything sealed opens", () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes, key) => {
      const { commitment, sealed } = seal(bytes, key);
      expect(Buffer.from(open(sealed, key, commitment))).toEqual(Buffer.from(bytes));
    }),
  );
});

test("a flipped bit, a cut and a foreign opening are refused", () => {
  const { commitment, sealed } = seal(record, opening);
  for (let bit = 0; bit < sealed.length * 8; bit++) {
    const changed = Uint8Array.from(sealed);
    changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    expect(() => open(changed, opening, commitment), `bit ${bit}`).toThrow();
  }
  for (let length = 0; length < sealed.length; length++) {
    expect(() => open(sealed.subarray(0, length), opening, commitment), `${length} bytes`).toThrow();
  }
  expect(() => open(sealed, Uint8Array.from(opening).reverse(), commitment)).toThrow();
  expect(() => open(sealed, opening.subarray(1), commitment)).toThrow("32 bytes");
});

test("a sealed record that is not the committed one is refused", () => {
  const other = seal(Buffer.from("another record"), opening).commitment;
  expect(() => open(seal(record, opening).sealed, opening, other)).toThrow("not the one that its leaf commits to");
});

test("a commitment is to one record under one opening, in one encoding", () => {
  const { commitment } = seal(record, opening);
  expect(verifyCommitment(record, opening, commitment)).toBe(true);
  expect(verifyCommitment(record.subarray(1), opening, commitment)).toBe(false);
  expect(verifyCommitment(record, Uint8Array.from(opening).reverse(), commitment)).toBe(false);
  expect(verifyCommitment(record, opening, commitment.toUpperCase())).toBe(false);
  expect(verifyCommitment(record, opening, `${commitment} `)).toBe(false);
});
