/** Digests of the form `algorithm:value`. The value is opaque: an unusual one causes a warning, not a refusal. */

/** Supported hash functions, by their names in Node's `crypto`. */
export const hashNames = [
  "md5",
  "sha1",
  "sha224",
  "sha256",
  "sha384",
  "sha512",
  "sha512-256",
  "sha3-224",
  "sha3-256",
  "sha3-384",
  "sha3-512",
  "blake2b512",
  "blake2s256",
] as const;
export type HashName = (typeof hashNames)[number];

interface Digest {
  /** `[a-z0-9][a-z0-9+._-]*` */
  readonly algorithm: string;
  readonly value: string;
}

interface Algorithm {
  /** The preferred name. */
  readonly name: string;
  /** Length of the value in hexadecimal digits. */
  readonly hexLength: number;
  /** Absent if it is not supported. */
  readonly hash?: HashName;
  /** Collisions are known. */
  readonly weak?: true;
}

/** Algorithms by all of their names. */
const algorithms: ReadonlyMap<string, Algorithm> = new Map([
  ...names({ hexLength: 32, hash: "md5", weak: true }, "md5"),
  ...names({ hexLength: 40, hash: "sha1", weak: true }, "sha1", "sha-1"),
  ...names({ hexLength: 56, hash: "sha224" }, "sha224", "sha-224", "sha2-224"),
  ...names({ hexLength: 64, hash: "sha256" }, "sha256", "sha-256", "sha2-256"),
  ...names({ hexLength: 96, hash: "sha384" }, "sha384", "sha-384", "sha2-384"),
  ...names({ hexLength: 128, hash: "sha512" }, "sha512", "sha-512", "sha2-512"),
  ...names({ hexLength: 64, hash: "sha512-256" }, "sha512-256", "sha-512-256", "sha2-512-256"),
  ...names({ hexLength: 56, hash: "sha3-224" }, "sha3-224"),
  ...names({ hexLength: 64, hash: "sha3-256" }, "sha3-256"),
  ...names({ hexLength: 96, hash: "sha3-384" }, "sha3-384"),
  ...names({ hexLength: 128, hash: "sha3-512" }, "sha3-512"),
  ...names({ hexLength: 128, hash: "blake2b512" }, "blake2b", "blake2b-512", "blake2b512"),
  ...names({ hexLength: 64 }, "blake2b-256", "blake2b256"),
  ...names({ hexLength: 64, hash: "blake2s256" }, "blake2s", "blake2s-256", "blake2s256"),
  ...names({ hexLength: 64 }, "blake3"),
]);

function names(algorithm: Omit<Algorithm, "name">, name: string, ...aliases: string[]): [string, Algorithm][] {
  return [name, ...aliases].map((alias) => [alias, { ...algorithm, name }]);
}

/** Splits a digest at its first colon. Undefined if the text is not a digest. */
export function parseDigest(text: string): Digest | undefined {
  const match = /^([a-z0-9][a-z0-9+._-]*):(.+)$/s.exec(text);
  return match === null ? undefined : { algorithm: match[1] as string, value: match[2] as string };
}

/** A value that is not hexadecimal of its algorithm's length, or a broken algorithm. */
type DigestOddity = "not_hex" | "weak";

/** Returns what is unusual about a digest; nothing for an unknown algorithm. */
export function digestOddities(text: string): readonly DigestOddity[] {
  const digest = parseDigest(text);
  const algorithm = digest === undefined ? undefined : algorithms.get(digest.algorithm);
  if (digest === undefined || algorithm === undefined) return [];
  return [
    ...(isHex(digest.value, algorithm.hexLength) ? [] : (["not_hex"] as const)),
    ...(algorithm.weak ? (["weak"] as const) : []),
  ];
}

function isHex(value: string, length: number): boolean {
  return value.length === length && /^[0-9a-fA-F]+$/.test(value);
}

/** Returns the hash of a digest, if it is supported. */
export function hashOfDigest(text: string): HashName | undefined {
  return algorithms.get(parseDigest(text)?.algorithm ?? "")?.hash;
}

/**
 * Whether a digest's value is the given hash. Hexadecimal in either case, base64 and base64url, with or without
 * padding, are the same bytes; anything else is not.
 *
 * @param hex lowercase hexadecimal
 */
export function isDigestOf(text: string, hex: string): boolean {
  const value = parseDigest(text)?.value;
  if (value === undefined) return false;
  if (value.toLowerCase() === hex) return true;
  const bytes = Buffer.from(hex, "hex");
  const spelled = value.replace(/=+$/, "");
  return spelled === bytes.toString("base64url") || spelled === bytes.toString("base64").replace(/=+$/, "");
}

/**
 * Returns the canonical spelling among those that `isDigestOf` treats as the same: the preferred name of its algorithm,
 * and its bytes in lowercase hexadecimal. A value that does not fit a known algorithm stays unchanged.
 */
export function canonicalDigest(text: string): string {
  const digest = parseDigest(text);
  const algorithm = algorithms.get(digest?.algorithm ?? "");
  if (digest === undefined || algorithm === undefined) return text;
  const hex = hexOf(digest.value, algorithm.hexLength);
  return `${algorithm.name}:${hex ?? digest.value}`;
}

/** Converts hexadecimal, base64 or base64url to lowercase hexadecimal; undefined for anything else. */
function hexOf(value: string, hexLength: number): string | undefined {
  if (isHex(value, hexLength)) return value.toLowerCase();
  // Node decodes both alphabets leniently; the check of the result refuses invalid text.
  const bytes = Buffer.from(value, "base64");
  const hex = bytes.toString("hex");
  return hex.length === hexLength && isDigestOf(`x:${value}`, hex) ? hex : undefined;
}

/** Algorithms of programs such as `sha256sum`, by the number of hexadecimal digits that they print. */
const printed: ReadonlyMap<number, string> = new Map([
  [32, "md5"],
  [40, "sha1"],
  [56, "sha224"],
  [64, "sha256"],
  [96, "sha384"],
  [128, "sha512"],
]);

/**
 * Returns the canonical digest of what a person enters: `algorithm:value`; hexadecimal digits alone, of MD5, SHA-1 or
 * SHA-2; or a line of `sha256sum` and its like. Undefined for other text.
 */
export function digestOfText(text: string): string | undefined {
  const line = /^\\?([0-9a-fA-F]+)(?: [ *].+)?\s*$/s.exec(text)?.[1];
  const algorithm = line === undefined ? undefined : printed.get(line.length);
  if (line !== undefined && algorithm !== undefined) return canonicalDigest(`${algorithm}:${line}`);
  const named = text.replace(/^[A-Za-z0-9+._-]+:/, (name) => name.toLowerCase());
  return parseDigest(named) === undefined ? undefined : canonicalDigest(named);
}
