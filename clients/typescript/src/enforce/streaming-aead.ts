/**
 * Tink's AES-GCM-HKDF streaming AEAD, in its published wire format and for its two published parameter sets: header
 * (length, salt, nonce prefix), then segments, each authenticated together with its number and whether it is the last.
 * Plaintext is released only after its segment is authenticated.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import { ByteReader } from "./byte-reader.ts";
import { EnforcementError } from "./errors.ts";
import { type RandomAccess, readAt } from "./random-access.ts";

/** Tink's key templates by name, and the size of their ciphertext segments in bytes. */
export const segmentSizes = { AES256_GCM_HKDF_1MB: 1_048_576, AES256_GCM_HKDF_4KB: 4_096 } as const;
export type StreamingAead = keyof typeof segmentSizes;

const keySize = 32;
const saltSize = 32;
const noncePrefixSize = 7;
const headerSize = 1 + saltSize + noncePrefixSize;
const tagSize = 16;
/** Segment numbers have 32 bits. */
const maxSegments = 2 ** 32;

export interface StreamingKey {
  readonly aead: StreamingAead;
  /** 32 bytes. */
  readonly key: Uint8Array;
  /** At most 1,024 bytes, the limit of Node's HKDF. */
  readonly associatedData: Uint8Array;
}

/** Returns so many random bytes. */
export type RandomSource = (sizeBytes: number) => Uint8Array;

/** Yields the ciphertext in pieces, with the memory of one segment. Each piece is valid until the next is requested. */
export async function* encryptSegments(
  plaintext: AsyncIterable<Uint8Array>,
  { aead, key, associatedData }: StreamingKey,
  random: RandomSource = randomBytes,
): AsyncGenerator<Uint8Array> {
  const salt = random(saltSize);
  const noncePrefix = random(noncePrefixSize);
  const derivedKey = deriveKey(key, salt, associatedData);
  try {
    yield Buffer.concat([Uint8Array.of(headerSize), salt, noncePrefix]);
    const size = segmentSizes[aead] - tagSize;
    let index = 0;
    for await (const { bytes, isLast } of segmentsOf(plaintext, size - headerSize, size)) {
      const cipher = createCipheriv("aes-256-gcm", derivedKey, nonceOf(noncePrefix, index++, isLast));
      yield cipher.update(bytes);
      cipher.final();
      yield cipher.getAuthTag();
    }
  } finally {
    derivedKey.fill(0);
  }
}

/** Yields the authenticated plaintext in pieces; rejects with `not_authentic` at the first segment that fails. */
export async function* decryptSegments(
  ciphertext: AsyncIterable<Uint8Array>,
  { aead, key, associatedData }: StreamingKey,
): AsyncGenerator<Uint8Array> {
  const reader = new ByteReader(ciphertext);
  const header = await reader.read(headerSize);
  if (header.length < headerSize || header[0] !== headerSize) throw notAuthentic();
  const salt = header.subarray(1, 1 + saltSize);
  const noncePrefix = header.subarray(1 + saltSize);
  const derivedKey = deriveKey(key, salt, associatedData);
  try {
    const size = segmentSizes[aead];
    let index = 0;
    for await (const { bytes, isLast } of segmentsOf(reader.rest(), size - headerSize, size)) {
      const plaintext = decryptSegment(derivedKey, nonceOf(noncePrefix, index++, isLast), bytes);
      if (plaintext.length > 0) yield plaintext;
    }
  } finally {
    derivedKey.fill(0);
  }
}

/** Part of a plaintext, in bytes. */
export interface Range {
  readonly offset: number;
  readonly length: number;
}

/**
 * Yields the plaintext of a range, of a stream that begins at `from` and ends with the source. Reads the segments that
 * the range touches: at least one, and the last one if the range ends behind the data, so that a stream that was cut
 * never looks shorter. Each is authenticated with its number.
 */
export async function* decryptRange(
  source: RandomAccess,
  from: number,
  { aead, key, associatedData }: StreamingKey,
  { offset, length }: Range,
): AsyncGenerator<Uint8Array> {
  const header = await readAt(source, from, headerSize);
  if (header[0] !== headerSize) throw notAuthentic();
  const noncePrefix = header.subarray(1 + saltSize);
  const derivedKey = deriveKey(key, header.subarray(1, 1 + saltSize), associatedData);
  try {
    const size = segmentSizes[aead];
    const streamBytes = source.sizeBytes - from;
    const last = Math.max(0, Math.ceil(streamBytes / size) - 1);
    // The header takes the place of the first segment's first bytes.
    const segmentAt = (position: number) => Math.min(last, Math.floor((position + headerSize) / (size - tagSize)));
    for (let i = segmentAt(offset); i <= segmentAt(offset + Math.max(length, 1) - 1); i++) {
      const start = Math.max(i * size, headerSize);
      const bytes = await readAt(source, from + start, Math.min((i + 1) * size, streamBytes) - start);
      const plaintext = decryptSegment(derivedKey, nonceOf(noncePrefix, i, i === last), bytes);
      const plaintextAt = Math.max(0, i * (size - tagSize) - headerSize);
      yield withinRange(plaintext, { offset: offset - plaintextAt, length });
    }
  } finally {
    derivedKey.fill(0);
  }
}

/** The part of a segment's plaintext within a range that is relative to it. The rest is overwritten. */
export function withinRange(plaintext: Buffer, { offset, length }: Range): Buffer {
  const start = Math.min(Math.max(offset, 0), plaintext.length);
  const end = Math.min(Math.max(offset + length, start), plaintext.length);
  plaintext.fill(0, 0, start).fill(0, end);
  return plaintext.subarray(start, end);
}

/** Throws `not_authentic` unless it is the segment of this nonce. */
function decryptSegment(derivedKey: Uint8Array, nonce: Uint8Array, bytes: Uint8Array): Buffer {
  if (bytes.length < tagSize) throw notAuthentic();
  const decipher = createDecipheriv("aes-256-gcm", derivedKey, nonce);
  decipher.setAuthTag(bytes.subarray(bytes.length - tagSize));
  const plaintext = decipher.update(bytes.subarray(0, bytes.length - tagSize));
  try {
    decipher.final();
    return plaintext;
  } catch (cause) {
    plaintext.fill(0);
    throw notAuthentic(cause);
  }
}

function deriveKey(key: Uint8Array, salt: Uint8Array, associatedData: Uint8Array): Uint8Array {
  return new Uint8Array(hkdfSync("sha256", key, salt, associatedData, keySize));
}

function nonceOf(prefix: Uint8Array, index: number, isLast: boolean): Uint8Array {
  if (index >= maxSegments) throw new EnforcementError("invalid", "more data than one stream can hold");
  const nonce = Buffer.alloc(12);
  nonce.set(prefix);
  nonce.writeUInt32BE(index, noncePrefixSize);
  nonce[11] = isLast ? 1 : 0;
  return nonce;
}

function notAuthentic(cause?: unknown): EnforcementError {
  return new EnforcementError("not_authentic", "the artifact is not as it was protected", { cause });
}

interface Segment {
  readonly bytes: Uint8Array;
  readonly isLast: boolean;
}

/** Splits into segments of exact sizes, each valid until the next is requested. Only the end of the source shows which is the last; it may be empty. */
export async function* segmentsOf(
  source: AsyncIterable<Uint8Array>,
  firstBytes: number,
  otherBytes: number,
): AsyncGenerator<Segment> {
  let buffer = Buffer.alloc(0);
  let filled = 0;
  let size = firstBytes;
  for await (const chunk of source) {
    for (let at = 0; at < chunk.length; ) {
      if (filled === size) {
        yield { bytes: buffer.subarray(0, filled), isLast: false };
        filled = 0;
        size = otherBytes;
      }
      const taken = chunk.subarray(at, at + size - filled);
      const needed = filled + taken.length;
      // A small plaintext takes little memory.
      if (needed > buffer.length) {
        const grown = Math.min(Math.max(needed, 2 * buffer.length), otherBytes);
        buffer = Buffer.concat([buffer.subarray(0, filled)], grown);
      }
      buffer.set(taken, filled);
      filled = needed;
      at += taken.length;
    }
  }
  yield { bytes: buffer.subarray(0, filled), isLast: true };
}
