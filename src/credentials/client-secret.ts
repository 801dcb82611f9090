/** Client secrets: random, stored as a memory-hard hash in the PHC string format. */
import { argon2, timingSafeEqual } from "node:crypto";
import type { RandomFill } from "../base/ids.ts";

export interface SecretHash {
  readonly memoryKib: number;
  readonly passes: number;
  readonly lanes: number;
  readonly salt: Uint8Array;
  readonly hash: Uint8Array;
}

/** Argon2id (RFC 9106) with 19 MiB and two passes, the minimum that OWASP recommends: about 30 ms. */
export const defaultCost = { memoryKib: 19_456, passes: 2, lanes: 1 };

const secretBytes = 32;
const saltBytes = 16;
const hashBytes = 32;

/**
 * `$argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<hash>`, base64 without padding; 19 is version 1.3 of Argon2. The
 * bounds below exclude hashes that are cheap to attack, and those that need too much memory.
 */
const phcString =
  /^\$argon2id\$v=19\$m=([1-9]\d{3,5}),t=([1-9]\d?),p=([1-9])\$([A-Za-z0-9+/]{22,86})\$([A-Za-z0-9+/]{43})$/;
const memoryKibRange = [7_168, 65_536] as const;
const maximumPasses = 10;
const maximumLanes = 4;

/** Returns a new secret: 256 random bits as 43 characters of base64url. */
export function newSecret(random: RandomFill): string {
  return Buffer.from(random(new Uint8Array(secretBytes))).toString("base64url");
}

export async function hashSecret(secret: string, random: RandomFill): Promise<SecretHash> {
  const salt = random(new Uint8Array(saltBytes));
  return { ...defaultCost, salt, hash: await derive(secret, { ...defaultCost, salt }) };
}

/** Whether the secret matches. Computed outside the event loop, with `memoryKib` of memory. */
export async function isSecret(secret: string, hash: SecretHash): Promise<boolean> {
  return timingSafeEqual(await derive(secret, hash), hash.hash);
}

export function formatSecretHash({ memoryKib, passes, lanes, salt, hash }: SecretHash): string {
  const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64").replace(/=+$/, "");
  return `$argon2id$v=19$m=${memoryKib},t=${passes},p=${lanes}$${base64(salt)}$${base64(hash)}`;
}

/** Parses a PHC string; undefined if it is invalid, or its costs are out of bounds. */
export function parseSecretHash(text: string): SecretHash | undefined {
  const [, memory, time, parallelism, salt = "", hash = ""] = phcString.exec(text) ?? [];
  const parsed = {
    memoryKib: Number(memory),
    passes: Number(time),
    lanes: Number(parallelism),
    salt: Buffer.from(salt, "base64"),
    hash: Buffer.from(hash, "base64"),
  };
  const { memoryKib, passes, lanes } = parsed;
  const inBounds =
    memoryKib >= memoryKibRange[0] &&
    memoryKib <= memoryKibRange[1] &&
    passes <= maximumPasses &&
    lanes <= maximumLanes;
  return inBounds && formatSecretHash(parsed) === text ? parsed : undefined;
}

function derive(secret: string, { memoryKib, passes, lanes, salt }: Omit<SecretHash, "hash">): Promise<Buffer> {
  const parameters = {
    message: Buffer.from(secret, "utf8"),
    nonce: salt,
    parallelism: lanes,
    tagLength: hashBytes,
    memory: memoryKib,
    passes,
  };
  return new Promise((resolve, reject) => {
    argon2("argon2id", parameters, (error, key) => (error === null ? resolve(key) : reject(error)));
  });
}
