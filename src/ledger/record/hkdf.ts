/**
 * HKDF-SHA256 (RFC 5869) without salt, for several keys from one secret with a single extraction. Node's own extracts
 * for every key and costs more than twice as much, which would be a fifth of the writer's time per record, under the
 * lock of the log's head (`bench/parts.ts`). A test compares the two.
 */
import { hash } from "node:crypto";

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
 * @param secret 32 random bytes
 * @param infos at most 63 bytes each
 * @throws RangeError if one is longer
 */
export function deriveKeys(secret: Uint8Array, infos: readonly Uint8Array[]): Uint8Array[] {
  setKey(noSalt);
  inner.set(secret, blockBytes);
  const extracted = authenticate(secret.length);
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
