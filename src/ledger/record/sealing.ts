/**
 * One random opening per record is the root of its secrecy. HKDF-SHA256 (RFC 5869) derives two keys from it: one
 * commits to the record in the public leaf, so that the leaf reveals nothing without the opening; one seals the record
 * at rest. Deleting the opening therefore erases the record everywhere, backups of the sealed bytes included, while the
 * log still verifies.
 */
import { createCipheriv, createDecipheriv, createHmac, timingSafeEqual } from "node:crypto";
import { deriveKeys } from "./hkdf.ts";

export const openingBytes = 32;

// Part of the stored format: must never change, whatever the deployment calls its service.
const commitmentInfo = Buffer.from("platform-ledger/v1/commitment");
const sealInfo = Buffer.from("platform-ledger/v1/seal");
const answerInfo = Buffer.from("platform-ledger/v1/answer");
const commitmentPrefix = "hmac-sha256:";

const tagBytes = 16;
/** First byte of sealed bytes: the cipher. It is authenticated as additional data. */
const sealVersion = Uint8Array.of(1);
/** Each seal key encrypts one message, so a fixed nonce is safe (RFC 5116 §3.1). */
const nonce = new Uint8Array(12);

/** A sealed record. */
export interface Sealed {
  /** `hmac-sha256:` and the hexadecimal HMAC-SHA-256 of the record's bytes. */
  readonly commitment: string;
  /** Version byte, AES-256-GCM ciphertext, 16-byte tag. */
  readonly sealed: Uint8Array;
}

/** Commits to a record and seals it. The opening must be 32 fresh random bytes, used for this record alone. */
export function seal(record: Uint8Array, opening: Uint8Array): Sealed {
  const [commitmentKey, sealKey] = keysOf(opening, commitmentInfo, sealInfo) as [Uint8Array, Uint8Array];
  return { commitment: commitUnder(commitmentKey, record), sealed: encrypt(record, sealKey) };
}

/** Seals the answer about a record with the record's opening, so that both are erased together. */
export function sealAnswer(answer: Uint8Array, opening: Uint8Array): Uint8Array {
  return encrypt(answer, deriveKey(opening, answerInfo));
}

/** Opens the result of `sealAnswer`. Throws if the opening is another record's or any byte differs. */
export function openAnswer(sealed: Uint8Array, opening: Uint8Array): Uint8Array {
  return decrypt(sealed, deriveKey(opening, answerInfo));
}

/**
 * Opens sealed bytes and checks them against the leaf's commitment. Throws if the opening is another's, if any byte
 * differs, or if the record is not the committed one.
 */
export function open(sealed: Uint8Array, opening: Uint8Array, commitment: string): Uint8Array {
  const record = decrypt(sealed, deriveKey(opening, sealInfo));
  if (!verifyCommitment(record, opening, commitment))
    throw new Error("The record is not the one that its leaf commits to.");
  return record;
}

export function commit(record: Uint8Array, opening: Uint8Array): string {
  return commitUnder(deriveKey(opening, commitmentInfo), record);
}

function commitUnder(key: Uint8Array, record: Uint8Array): string {
  return commitmentPrefix + createHmac("sha256", key).update(record).digest("hex");
}

/** Whether the commitment is to this record with this opening. */
export function verifyCommitment(record: Uint8Array, opening: Uint8Array, commitment: string): boolean {
  const expected = Buffer.from(commit(record, opening));
  const given = Buffer.from(commitment);
  return expected.length === given.length && timingSafeEqual(expected, given);
}

/** The key must never encrypt anything else. */
function encrypt(plain: Uint8Array, key: Uint8Array): Uint8Array {
  const cipher = createCipheriv("aes-256-gcm", key, nonce);
  cipher.setAAD(sealVersion);
  const ciphertext = cipher.update(plain);
  cipher.final();
  return Buffer.concat([sealVersion, ciphertext, cipher.getAuthTag()]);
}

function decrypt(sealed: Uint8Array, key: Uint8Array): Uint8Array {
  if (sealed.length < 1 + tagBytes || sealed[0] !== sealVersion[0])
    throw new Error("The sealed bytes have an unknown format.");
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes });
  decipher.setAAD(sealVersion);
  decipher.setAuthTag(sealed.subarray(sealed.length - tagBytes));
  return Buffer.concat([decipher.update(sealed.subarray(1, sealed.length - tagBytes)), decipher.final()]);
}

function deriveKey(opening: Uint8Array, info: Uint8Array): Uint8Array {
  return keysOf(opening, info)[0] as Uint8Array;
}

function keysOf(opening: Uint8Array, ...infos: readonly Uint8Array[]): Uint8Array[] {
  if (opening.length !== openingBytes) throw new RangeError(`An opening has ${openingBytes} bytes.`);
  return deriveKeys(opening, infos);
}
