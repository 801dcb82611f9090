/** What wraps content keys: keys that this process holds, from a file or given. `transit.ts` has the one of a key service. */
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { EnforcementError } from "./errors.ts";
import { createFile } from "./files.ts";

/** Wraps and unwraps content keys under one key-encryption key. */
export interface KeyProvider {
  /** Kind of provider, as the header has it: `local`, `transit`. */
  readonly provider: string;
  /** Name of the key: what decisions are asked about, and what finds the provider again. Never key material. */
  readonly reference: string;
  /** How the key must be planned by the platform: one that this process holds, or one that a key service keeps. */
  readonly transport: "local_provided" | "wrapped_key_reference";
  /** Text that gives the content key again, with the same associated data and no other. */
  wrap(contentKey: Uint8Array, associatedData: Uint8Array): Promise<string>;
  /** The content key, which the caller overwrites. Rejects with `not_authentic`, or `unavailable`. */
  unwrap(wrapped: string, associatedData: Uint8Array): Promise<Uint8Array>;
}

const keySize = 32;
const nonceSize = 12;
const tagSize = 16;

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

/** Makes a key file that is not there yet, readable by its owner alone: a JWK (RFC 7517) of type `oct`. */
export async function createKeyFile(
  path: string,
  reference = `local-${randomBytes(8).toString("hex")}`,
): Promise<void> {
  const jwk = { kty: "oct", alg: "A256GCM", kid: reference, k: randomBytes(keySize).toString("base64url") };
  await createFile(path, Buffer.from(`${JSON.stringify(jwk)}\n`));
}

/** The key of a key file; its `kid` is the reference. Rejects with `invalid` where others than the owner may read it. */
export async function keyFile(path: string): Promise<KeyProvider> {
  const { kty, kid, k } = await readJwk(path);
  const key = typeof k === "string" ? Buffer.from(k, "base64url") : Buffer.alloc(0);
  if (kty !== "oct" || typeof kid !== "string" || kid === "" || key.length !== keySize) {
    throw new EnforcementError("invalid", `${path} is no key file: a JWK of type oct with kid and 32 bytes of k`);
  }
  return localKey(kid, key);
}

/** Reads a JWK from a file with secrets. */
export async function readJwk(path: string): Promise<Readonly<Record<string, unknown>>> {
  let file: FileHandle;
  try {
    // To open a FIFO would wait for whoever writes to it.
    file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (cause) {
    throw new EnforcementError("invalid", `${path} cannot be read`, { cause });
  }
  try {
    const stat = await file.stat();
    if (!stat.isFile() || stat.size > 65_536) throw new EnforcementError("invalid", `${path} is no key file`);
    if (process.platform !== "win32" && (stat.mode & 0o077) !== 0) {
      throw new EnforcementError("invalid", `${path} is readable by others than its owner: make it 0600`);
    }
    const value: unknown = JSON.parse(await file.readFile("utf8"));
    if (typeof value !== "object" || value === null) throw new SyntaxError("no object");
    return value as Readonly<Record<string, unknown>>;
  } catch (cause) {
    if (cause instanceof EnforcementError) throw cause;
    throw new EnforcementError("invalid", `${path} is no key file: it is not JSON`);
  } finally {
    await file.close();
  }
}
