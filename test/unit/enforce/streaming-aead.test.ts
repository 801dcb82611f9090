/** The streaming AEAD: Tink's wire format, and that nothing can be changed, cut, moved or mixed up without notice. */
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { EnforcementError } from "../../../clients/typescript/src/enforce/errors.ts";
import {
  ciphertextSize,
  decryptSegments,
  encryptSegments,
  type StreamingAead,
  type StreamingKey,
  segmentSizes,
} from "../../../clients/typescript/src/enforce/streaming-aead.ts";

const segment = segmentSizes.AES256_GCM_HKDF_4KB;
const firstPlaintext = segment - 40 - 16;
const otherPlaintext = segment - 16;

async function* inPieces(bytes: Uint8Array, sizes: readonly number[] = [bytes.length]): AsyncGenerator<Uint8Array> {
  let at = 0;
  for (let i = 0; at < bytes.length; i++) {
    const size = Math.max(1, sizes[i % sizes.length] ?? 1);
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

async function collect(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const piece of pieces) parts.push(Buffer.from(piece));
  return Buffer.concat(parts);
}

const newKey = (aead: StreamingAead = "AES256_GCM_HKDF_4KB"): StreamingKey => ({
  aead,
  key: randomBytes(32),
  associatedData: Buffer.from("bound"),
});
const seal = (plaintext: Uint8Array, key: StreamingKey) => collect(encryptSegments(inPieces(plaintext), key));

/** What came out before it failed, where it failed. */
async function open(ciphertext: Uint8Array, key: StreamingKey) {
  const released: Buffer[] = [];
  try {
    for await (const piece of decryptSegments(inPieces(ciphertext), key)) released.push(Buffer.from(piece));
    return { plaintext: Buffer.concat(released) };
  } catch (error) {
    if (error instanceof EnforcementError && error.failure === "not_authentic")
      return { released: Buffer.concat(released) };
    throw error;
  }
}

test("a small plaintext takes little memory, whatever the size of a segment", async () => {
  const key = newKey("AES256_GCM_HKDF_1MB");
  const before = process.memoryUsage().arrayBuffers;
  const streams = Array.from({ length: 256 }, () => encryptSegments(inPieces(Buffer.alloc(1_024)), key));
  // Header and first ciphertext: each stream now holds a segment.
  for (const stream of streams) for (const _ of [1, 2]) await stream.next();
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 * 1_048_576);
  for (const stream of streams) await stream.return(undefined);
});

const edges = [0, 1, firstPlaintext, otherPlaintext].flatMap((size) =>
  [0, 1, 2].flatMap((more) => [-1, 0, 1].map((off) => size + more * otherPlaintext + off)),
);

test.each([...new Set(edges)].filter((size) => size >= 0))(
  "%i bytes are encrypted and decrypted, with ciphertext of known size",
  async (size) => {
    const key = newKey();
    const plaintext = randomBytes(size);
    const ciphertext = await seal(plaintext, key);
    expect(ciphertext.length).toBe(ciphertextSize(key.aead, size));
    expect(await open(ciphertext, key)).toEqual({ plaintext });
  },
);

test("pieces of any size make the same stream", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ maxLength: 3 * segment }),
      fc.array(fc.integer({ min: 1, max: 2 * segment }), { minLength: 1 }),
      fc.array(fc.integer({ min: 1, max: 2 * segment }), { minLength: 1 }),
      async (plaintext, sizes, otherSizes) => {
        const key = newKey();
        const ciphertext = await collect(encryptSegments(inPieces(plaintext, sizes), key));
        const opened = await collect(decryptSegments(inPieces(ciphertext, otherSizes), key));
        expect(opened.equals(plaintext)).toBe(true);
      },
    ),
    { numRuns: 30 },
  );
});

describe("changed ciphertext is detected, and no changed segment is released", () => {
  const key = newKey();
  const plaintext = randomBytes(firstPlaintext + 2 * otherPlaintext + 100);
  const sealed = seal(plaintext, key);
  const isPrefix = (released: Buffer) => plaintext.subarray(0, released.length).equals(released);

  test("segments that are swapped, left out, doubled, or of another stream", async () => {
    const ciphertext = await sealed;
    const other = await seal(plaintext, key);
    const parts = (bytes: Buffer) => [0, 1, 2, 3].map((n) => bytes.subarray(n * segment, (n + 1) * segment));
    const [a, b, c, d] = parts(ciphertext) as [Buffer, Buffer, Buffer, Buffer];
    const [, otherB] = parts(other) as [Buffer, Buffer];
    for (const mixed of [
      [a, c, b, d],
      [a, c, d],
      [a, b, b, c, d],
      [a, otherB, c, d],
      [a, b, c],
      [b, a, c, d],
      [a, d],
    ]) {
      const { released } = await open(Buffer.concat(mixed), key);
      expect(released).toBeDefined();
      expect(isPrefix(released as Buffer)).toBe(true);
    }
  });

  test("another key, other associated data, the other segment size", async () => {
    const ciphertext = await sealed;
    for (const wrong of [
      { ...key, key: randomBytes(32) },
      { ...key, associatedData: Buffer.from("other") },
      { ...key, aead: "AES256_GCM_HKDF_1MB" } as const,
    ]) {
      expect(await open(ciphertext, wrong)).toEqual({ released: Buffer.alloc(0) });
    }
  });
});

interface Vector {
  readonly aead: StreamingAead;
  readonly key: string;
  readonly associated_data: string;
  readonly plaintext_size: number;
  readonly salt: string;
  readonly nonce_prefix: string;
  readonly ciphertext_sha256: string;
}

const vectorFile = join(import.meta.dirname, "../../../clients/conformance/vectors/streaming-aead.json");
const { vectors } = JSON.parse(readFileSync(vectorFile, "utf8")) as { readonly vectors: readonly Vector[] };

test.each(vectors)("$aead of $plaintext_size bytes equals Tink's output", async (vector) => {
  const bytesOf = (hex: string) => Buffer.from(hex, "hex");
  const key = { aead: vector.aead, key: bytesOf(vector.key), associatedData: bytesOf(vector.associated_data) };
  const plaintext = Buffer.from(Array.from({ length: vector.plaintext_size }, (_, i) => i % 251));
  const randoms = [bytesOf(vector.salt), bytesOf(vector.nonce_prefix)];
  const random = () => randoms.shift() ?? Buffer.alloc(0);
  const ciphertext = await collect(encryptSegments(inPieces(plaintext), key, random));
  expect(createHash("sha256").update(ciphertext).digest("hex")).toBe(vector.ciphertext_sha256);
  expect((await open(ciphertext, key)).plaintext?.equals(plaintext)).toBe(true);
});
