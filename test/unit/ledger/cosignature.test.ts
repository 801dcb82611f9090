import { sign } from "node:crypto";
import { expect, test } from "vitest";
import { formatSignature, parseNote } from "../../../src/ledger/tlog/note.ts";
import { cosignatureType, formatVerifierKey, keyIdOf, signingKeyOf } from "../../../src/ledger/tlog/note-keys.ts";
import { cosignedText, findCosignature, parseCosignerKey } from "../../../src/ledger/witness/cosignature.ts";
import { parseWitnessSize } from "../../../src/ledger/witness/witness-log.ts";
import { must } from "../domain/world.ts";

const name = "witness.example/w1";
const key = signingKeyOf(new Uint8Array(32).fill(3));
const keyId = keyIdOf(name, key.publicKey, cosignatureType);
const verifier = must(parseCosignerKey(formatVerifierKey(name, key.publicKey, cosignatureType)));
const nowMs = Date.UTC(2026, 0, 2);
const nowSeconds = nowMs / 1_000;
const text = "log.example/a\n7\nAAAA\n";

/** A line as the specification says, or with another time, text, name or length. */
function line({ seconds = nowSeconds, signed = text, as = name, cut = 0, id = keyId } = {}): string {
  const time = Buffer.alloc(8);
  time.writeBigUInt64BE(BigInt(seconds));
  const signature = sign(null, Buffer.from(`cosignature/v1\ntime ${seconds}\n${signed}`), key.privateKey);
  const bytes = Buffer.concat([time, signature]);
  return formatSignature({ name: as, keyId: id, signature: bytes.subarray(0, bytes.length - cut) });
}

test("the signed text is the specification's example", () => {
  expect(
    cosignedText("example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n", 1679315147),
  ).toBe(`cosignature/v1
time 1679315147
example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=
`);
});

test("the witness's line is found among others, which are ignored", () => {
  const others = line({ as: "witness.example/w2" }) + line({ id: "00000000" });
  expect(findCosignature(others + line(), text, verifier, nowMs)).toBe(line());
  expect(parseNote(`${text}\n${line()}`).signatures).toHaveLength(1);
});

test("a time a little ahead of the clock is accepted", () => {
  expect(() => findCosignature(line({ seconds: nowSeconds + 299 }), text, verifier, nowMs)).not.toThrow();
});

test.each([
  ["nothing", ""],
  ["no newline", line().slice(0, -1)],
  ["text", "not found\n"],
  ["another witness's line", line({ as: "witness.example/w2" })],
  ["the line of another text", line({ signed: "log.example/b\n7\nAAAA\n" })],
  ["no time", line({ seconds: 0 })],
  ["a time to come", line({ seconds: nowSeconds + 302 })],
  ["a short signature", line({ cut: 1 })],
  ["a time and no signature", line({ cut: 64 })],
  ["a good line and a bad one", line() + line({ cut: 1 })],
])("%s is refused", (_, lines) => {
  expect(() => findCosignature(lines, text, verifier, nowMs)).toThrow(expect.objectContaining({ name: "NoteError" }));
});

test("keys of other types are refused for cosignatures", () => {
  expect(parseCosignerKey(formatVerifierKey(name, key.publicKey))).toBeUndefined();
  expect(parseCosignerKey("")).toBeUndefined();
});

test.each([
  ["12\n", 12],
  ["0\n", 0],
  ["12", undefined],
  ["012\n", undefined],
  ["-1\n", undefined],
  ["12\n\n", undefined],
  ["9007199254740993\n", undefined],
])("the size %j is %s", (body, size) => expect(parseWitnessSize(body)).toBe(size));
