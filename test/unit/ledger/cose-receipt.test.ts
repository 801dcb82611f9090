/** COSE receipts (RFC 9942): their bytes, and what their signature is not. */
import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { checkpointText } from "../../../src/ledger/tlog/checkpoint.ts";
import { coseReceipt, signRoot, verifyCoseReceipt } from "../../../src/ledger/tlog/cose-receipt.ts";
import { formatVerifierKey, noteSigner, parseVerifierKey, signingKeyOf } from "../../../src/ledger/tlog/note-keys.ts";
import { must } from "../domain/world.ts";

const key = signingKeyOf(Buffer.alloc(32, 1));
const root = createHash("sha256").update("root").digest();
const sibling = createHash("sha256").update("sibling").digest();
const origin = "logs.example/evidence/00";

function signed(size: number, name = origin) {
  const texts: Uint8Array[] = [];
  const { sign, ...named } = noteSigner(name, key);
  const signer = {
    ...named,
    sign: (text: Uint8Array) => {
      texts.push(text);
      return sign(text);
    },
  };
  return { root: signRoot({ origin: name, size, root }, signer), texts };
}

test("the bytes are deterministic CBOR, in the standard's layout", () => {
  const tree = signed(2);
  const receipt = coseReceipt(tree.root, { index: 1, size: 2, path: [sibling] });
  const keyId = noteSigner(origin, key).keyId;
  const protectedHeader = `a401270444${keyId}0fa2017818${Buffer.from(origin).toString("hex")}02613219018b01`;
  const proof = `830201815820${sibling.toString("hex")}`;
  expect(Buffer.from(receipt).toString("hex")).toBe(
    `d28458${(protectedHeader.length / 2).toString(16)}${protectedHeader}` +
      `a119018ca120815826${proof}f65840${Buffer.from(tree.root.signature).toString("hex")}`,
  );
});

test.each([
  [23, "17"],
  [24, "1818"],
  [255, "18ff"],
  [256, "190100"],
  [65_535, "19ffff"],
  [65_536, "1a00010000"],
  [2 ** 32, "1b0000000100000000"],
  [Number.MAX_SAFE_INTEGER, "1b001fffffffffffff"],
])("the index %i is written in the fewest bytes", (index, encoded) => {
  const receipt = coseReceipt(signed(2).root, { index, size: 0, path: [] });
  expect(Buffer.from(receipt).toString("hex")).toContain(`8300${encoded}80f6`);
});

test("the signed bytes are never the text of a checkpoint, for any names and sizes", () => {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const names = fc.string({ minLength: 1, unit: "binary" }).filter((name) => name.isWellFormed());
  fc.assert(
    fc.property(names, fc.maxSafeNat(), (name, size) => {
      const [text] = signed(size, name).texts;
      expect(() => decoder.decode(text)).toThrow();
      expect(decoder.decode(Buffer.from(checkpointText({ origin: name, size, root })))).toContain(name);
    }),
  );
});

test("a receipt is refused for another place, tree, log or signature; one of another key is left unchecked", () => {
  const size = 1_000;
  const tree = { origin, size, root };
  const place = { index: 7, path: [sibling] };
  const verifier = must(parseVerifierKey(formatVerifierKey(origin, key.publicKey)));
  const receipt = coseReceipt(signed(size).root, { ...place, size });
  verifyCoseReceipt(receipt, { ...place, checkpoint: tree }, verifier);
  const refused = (changed: object, checkpoint: object = {}) =>
    expect(() =>
      verifyCoseReceipt(receipt, { ...place, ...changed, checkpoint: { ...tree, ...checkpoint } }, verifier),
    ).toThrow();
  refused({ index: 8 });
  refused({ path: [sibling, sibling] });
  refused({}, { size: size + 1 });
  refused({}, { origin: "logs.example/evidence/01" });
  refused({}, { root: sibling });
  const other = noteSigner(origin, signingKeyOf(Buffer.alloc(32, 2)));
  const byOther = coseReceipt(signRoot(tree, other), { ...place, size });
  verifyCoseReceipt(byOther, { ...place, checkpoint: tree }, verifier);
  expect(() => verifyCoseReceipt(byOther, { ...place, index: 8, checkpoint: tree }, verifier)).toThrow();
  for (const bytes of [new Uint8Array(0), receipt.subarray(1), Buffer.concat([receipt, Buffer.alloc(1)])])
    expect(() => verifyCoseReceipt(bytes, { ...place, checkpoint: tree }, verifier)).toThrow();
});
