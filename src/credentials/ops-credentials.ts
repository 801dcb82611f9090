/**
 * The file of the operators' credentials: one `name:hash` per line. The hash is the hexadecimal SHA-256 of a token of
 * 256 random bits, which cannot be guessed: a slower hash would add nothing.
 */
import { createHash, timingSafeEqual } from "node:crypto";

export interface OpsCredential {
  /** 1 to 64 letters, digits, dots, hyphens or underscores. */
  readonly name: string;
  /** SHA-256 of the token, 32 bytes. */
  readonly hash: Uint8Array;
}

const linePattern = /^([A-Za-z0-9._-]{1,64}):([0-9a-f]{64})$/;

export function isOperatorName(text: string): boolean {
  return /^[A-Za-z0-9._-]{1,64}$/.test(text);
}

export function hashOpsToken(token: string): Uint8Array {
  return createHash("sha256").update(token, "utf8").digest();
}

/** Parses the file. Throws an Error that names the line without quoting it. */
export function parseOpsCredentials(text: string): readonly OpsCredential[] {
  const names = new Set<string>();
  return text
    .split("\n")
    .map((line, position) => ({ line: line.trimEnd(), position }))
    .filter(({ line }) => line !== "")
    .map(({ line, position }) => {
      const [, name, hash] = linePattern.exec(line) ?? [];
      if (name === undefined || hash === undefined)
        throw new Error(`line ${position + 1} is not a name and a SHA-256, separated by a colon`);
      if (names.has(name)) throw new Error(`line ${position + 1} repeats a name`);
      names.add(name);
      return { name, hash: Buffer.from(hash, "hex") };
    });
}

/** Formats the file, in the order of the credentials. */
export function formatOpsCredentials(credentials: readonly OpsCredential[]): string {
  return credentials.map(({ name, hash }) => `${name}:${Buffer.from(hash).toString("hex")}\n`).join("");
}

/** Returns the operator with this token. Compares every hash, each in constant time. */
export function operatorOf(credentials: readonly OpsCredential[], token: string): string | undefined {
  const hash = hashOpsToken(token);
  return credentials.filter((credential) => timingSafeEqual(credential.hash, hash))[0]?.name;
}
