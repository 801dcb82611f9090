import { hkdfSync } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { deriveKeys } from "../../../src/ledger/record/sealing.ts";

const secrets = fc.uint8Array({ minLength: 32, maxLength: 32 });
const infos = fc.array(fc.uint8Array({ maxLength: 63 }), { minLength: 1, maxLength: 4 });
const hex = (bytes: ArrayBuffer | Uint8Array) => Buffer.from(bytes as Uint8Array).toString("hex");

test("the keys are those of Node's HKDF, however many come of one secret", () => {
  fc.assert(
    fc.property(secrets, infos, (secret, given) => {
      const expected = given.map((info) => hex(hkdfSync("sha256", secret, new Uint8Array(0), info, 32)));
      expect(deriveKeys(secret, given).map(hex)).toEqual(expected);
    }),
  );
});

test("an info that does not fit is refused, and leaves nothing behind", () => {
  const secret = new Uint8Array(32).fill(7);
  const info = new Uint8Array(3).fill(1);
  const [key] = deriveKeys(secret, [info]);
  expect(() => deriveKeys(secret, [new Uint8Array(64)])).toThrow(RangeError);
  expect(deriveKeys(secret, [info])).toEqual([key]);
});
