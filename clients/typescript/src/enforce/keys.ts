/** Keys of this process that wrap content keys. `transit.ts` has those of a key service. */
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { EnforcementError } from "./errors.ts";
import { isReference } from "./header.ts";

/** Wraps and unwraps content keys under one key-encryption key. */
export interface KeyProvider {
  /** Kind of provider in the header: `local`, `transit`. */
  readonly provider: string;
  /** Name of the key, for decisions and to find the provider again. Never key material. */
  readonly reference: string;
  /** How the platform must plan the key: held by this process, or kept by a key service. */
  readonly transport: "local_provided" | "wrapped_key_reference";
  /** Returns text that yields the content key only with the same associated data. */
  wrap(contentKey: Uint8Array, associatedData: Uint8Array): Promise<string>;
  /** Returns the content key, which the caller must overwrite. Rejects with `not_authentic`, or `unavailable`. */
  unwrap(wrapped: string, associatedData: Uint8Array): Promise<Uint8Array>;
}

/** Size of a local key, in bytes. */
export const keySize = 32;
const nonceSize = 12;
const tagSize = 16;

/** Throws `invalid` if the reference has invisible characters or ones that control a terminal. */
export function requireReference(reference: string): void {
  if (!isReference(reference)) throw new EnforcementError("invalid", `${reference} is no reference of a key`);
}

/** A key of 32 bytes in this process: AES-256-GCM with a random nonce, for at most 2^32 content keys (SP 800-38D §8.3). */
export function localKey(reference: string, key: Uint8Array): KeyProvider {
  if (key.length !== keySize) throw new EnforcementError("invalid", "a local key has 32 bytes");
  return {
    provider: "local",
    reference,
    transport: "local_provided",
    async wrap(contentKey, associatedData) {
      const nonce = randomBytes(nonceSize);
      const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(associatedData);
      const parts = [nonce, cipher.update(contentKey), cipher.final(), cipher.getAuthTag()];
      return Buffer.concat(parts).toString("base64");
    },
    async unwrap(wrapped, associatedData) {
      const bytes = Buffer.from(wrapped, "base64");
      if (bytes.length !== nonceSize + keySize + tagSize || bytes.toString("base64") !== wrapped) throw notThisKey();
      const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, nonceSize)).setAAD(associatedData);
      decipher.setAuthTag(bytes.subarray(-tagSize));
      const contentKey = decipher.update(bytes.subarray(nonceSize, -tagSize));
      try {
        decipher.final();
        return contentKey;
      } catch (cause) {
        contentKey.fill(0);
        throw notThisKey(cause);
      }
    },
  };
}

function notThisKey(cause?: unknown): EnforcementError {
  return new EnforcementError("not_authentic", "the content key does not open with this key and header", { cause });
}
