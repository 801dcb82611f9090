/** The streaming AEAD: Tink's wire format. What is changed, cut, moved or mixed up is refused in `envelope.test.ts`. */
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  decryptSegments,
  encryptSegments,
  type StreamingAead,
  type StreamingKey,
  segmentSizes,
} from "../../../clients/typescript/src/enforce/streaming-aead.ts";

const segment = segmentSizes.AES256_GCM_HKDF_4KB;

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

test("a small plaintext takes little memory, whatever the size of a segment", async () => {
  const key = newKey("AES256_GCM_HKDF_1MB");
  const before = process.memoryUsage().arrayBuffers;
  const streams = Array.from({ length: 256 }, () => encryptSegments(inPieces(Buffer.alloc(1_024)), key));
  // Header and first ciphertext: each stream now holds a segment.
  for (const stream of streams) for (const _ of [1, 2]) await stream.next();
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 * 1_048_576);
  for (const stream of streams) await stream.return(undefined);
});

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
  expect((await collect(decryptSegments(inPieces(ciphertext), key))).equals(plaintext)).toBe(true);
});
