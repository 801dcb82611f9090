/**
 * One random opening per record is the root of its secrecy. HKDF-SHA256 (RFC 5869) derives two keys from it: one
 * commits to the record in the public leaf, so that the leaf reveals nothing without the opening; one seals the record
 * at rest. Deleting the opening therefore erases the record everywhere, backups of the sealed bytes included, while the
 * log still verifies.
 */
import { createCipheriv, createDecipheriv, createHmac, hash, timingSafeEqual } from "node:crypto";

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
interface Sealed {
  /** `hmac-sha256:` and the hexadecimal HMAC-SHA-256 of the record's bytes. */
  readonly commitment: string;
  /** Version byte, AES-256-GCM ciphertext, 16-byte tag. */
  readonly sealed: Uint8Array;
}

/** Commits to a record and seals it. The opening must be 32 fresh random bytes, used for this record alone. */
export function seal(record: Uint8Array, opening: Uint8Array): Sealed {
  const [commitmentKey, sealKey] = deriveKeys(opening, [commitmentInfo, sealInfo]) as [Uint8Array, Uint8Array];
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

function commitUnder(key: Uint8Array, record: Uint8Array): string {
  return commitmentPrefix + createHmac("sha256", key).update(record).digest("hex");
}

/** Whether the commitment is to this record with this opening. */
export function verifyCommitment(record: Uint8Array, opening: Uint8Array, commitment: string): boolean {
  const expected = Buffer.from(commitUnder(deriveKey(opening, commitmentInfo), record));
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
  return deriveKeys(opening, [info])[0] as Uint8Array;
}

// HKDF-SHA256 (RFC 5869) without salt, for several keys from one secret with a single extraction. Node's own extracts
// for every key and costs more than twice as much, which would be a fifth of the writer's time per record, under the
// lock of the log's head (`bench/parts.ts`). A test compares the two.

const blockBytes = 64;
const hashBytes = 32;
const maxMessageBytes = 64;

/** Input of HMAC (RFC 2104 §2): the padded key, then the message or its inner hash. Wiped after use. */
const inner = Buffer.alloc(blockBytes + maxMessageBytes);
const outer = Buffer.alloc(blockBytes + hashBytes);

/** Without a salt, HMAC is keyed with zeros (RFC 5869 §2.2). */
const noSalt = new Uint8Array(hashBytes);

/**
 * Returns a key of 32 bytes for each info, in order.
 *
 * @param infos at most 63 bytes each
 * @throws RangeError if one is longer, or if the opening has another length than it should
 */
export function deriveKeys(opening: Uint8Array, infos: readonly Uint8Array[]): Uint8Array[] {
  if (opening.length !== openingBytes) throw new RangeError(`An opening has ${openingBytes} bytes.`);
  setKey(noSalt);
  inner.set(opening, blockBytes);
  const extracted = authenticate(opening.length);
  setKey(extracted);
  // The first block of output is a whole key (RFC 5869 §2.3).
  const keys = infos.map((info) => {
    inner.set(info, blockBytes);
    inner[blockBytes + info.length] = 1;
    return authenticate(info.length + 1);
  });
  for (const used of [inner, outer, extracted]) used.fill(0);
  return keys;
}

function setKey(key: Uint8Array): void {
  inner.fill(0x36, 0, blockBytes);
  outer.fill(0x5c, 0, blockBytes);
  for (let i = 0; i < hashBytes; i++) {
    inner[i] = (key[i] as number) ^ 0x36;
    outer[i] = (key[i] as number) ^ 0x5c;
  }
}

/** HMAC of the message in `inner`, with the key that was set. */
function authenticate(messageBytes: number): Uint8Array {
  if (messageBytes > maxMessageBytes) throw new RangeError("An info has at most 63 bytes.");
  // As binary text: a buffer for every hash would cost more than the hash.
  outer.write(hash("sha256", inner.subarray(0, blockBytes + messageBytes), "binary"), blockBytes, "binary");
  return Buffer.from(hash("sha256", outer, "binary"), "binary");
}
