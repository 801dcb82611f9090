/** Digests of the form `algorithm:value`. The value is opaque: an unusual one causes a warning, not a refusal. */

interface HashFunction {
  /** In digests, the preferred name first. */
  readonly names: readonly [string, ...string[]];
  /** In the multihash of a CID, by the multicodec table. */
  readonly code: number;
  /** Length of the value in hexadecimal digits. */
  readonly hexLength: number;
  /** Name in Node's `crypto`; absent if it is not supported. */
  readonly hash?: string;
  /** Collisions are known. */
  readonly weak?: true;
}

const hashFunctions = [
  { names: ["md5"], code: 0xd5, hexLength: 32, hash: "md5", weak: true },
  { names: ["sha1", "sha-1"], code: 0x11, hexLength: 40, hash: "sha1", weak: true },
  { names: ["sha224", "sha-224", "sha2-224"], code: 0x1013, hexLength: 56, hash: "sha224" },
  { names: ["sha256", "sha-256", "sha2-256"], code: 0x12, hexLength: 64, hash: "sha256" },
  { names: ["sha384", "sha-384", "sha2-384"], code: 0x20, hexLength: 96, hash: "sha384" },
  { names: ["sha512", "sha-512", "sha2-512"], code: 0x13, hexLength: 128, hash: "sha512" },
  { names: ["sha512-256", "sha-512-256", "sha2-512-256"], code: 0x1015, hexLength: 64, hash: "sha512-256" },
  { names: ["sha3-224"], code: 0x17, hexLength: 56, hash: "sha3-224" },
  { names: ["sha3-256"], code: 0x16, hexLength: 64, hash: "sha3-256" },
  { names: ["sha3-384"], code: 0x15, hexLength: 96, hash: "sha3-384" },
  { names: ["sha3-512"], code: 0x14, hexLength: 128, hash: "sha3-512" },
  { names: ["blake2b", "blake2b-512", "blake2b512"], code: 0xb240, hexLength: 128, hash: "blake2b512" },
  { names: ["blake2b-256", "blake2b256"], code: 0xb220, hexLength: 64 },
  { names: ["blake2s", "blake2s-256", "blake2s256"], code: 0xb260, hexLength: 64, hash: "blake2s256" },
  { names: ["blake3"], code: 0x1e, hexLength: 64 },
] as const satisfies readonly HashFunction[];

/** Name of a supported hash function in Node's `crypto`. */
export type HashName = Extract<(typeof hashFunctions)[number], { hash: string }>["hash"];
type KnownFunction = HashFunction & { readonly hash?: HashName };

/** Hash functions by all of their names. */
const byName: ReadonlyMap<string, KnownFunction> = new Map(
  hashFunctions.flatMap((each: KnownFunction) => each.names.map((name) => [name, each] as const)),
);
const byCode: ReadonlyMap<number, KnownFunction> = new Map(hashFunctions.map((each) => [each.code, each]));

/** The hash function of a multihash; undefined if it has no name in digests. */
export function hashFunctionOf(code: number): KnownFunction | undefined {
  return byCode.get(code);
}

interface Digest {
  /** `[a-z0-9][a-z0-9+._-]*` */
  readonly algorithm: string;
  readonly value: string;
}

/** Splits a digest at its first colon. Undefined if the text is not a digest. */
export function parseDigest(text: string): Digest | undefined {
  const match = /^([a-z0-9][a-z0-9+._-]*):(.+)$/s.exec(text);
  return match === null ? undefined : { algorithm: match[1] as string, value: match[2] as string };
}

/**
 * Returns what is unusual about a digest: a value that is not hexadecimal of its algorithm's length, a broken algorithm.
 * Nothing for an unknown one.
 */
export function digestOddities(text: string): readonly ("not_hex" | "weak")[] {
  const digest = parseDigest(text);
  const algorithm = digest === undefined ? undefined : byName.get(digest.algorithm);
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
  return byName.get(parseDigest(text)?.algorithm ?? "")?.hash;
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
  const algorithm = byName.get(digest?.algorithm ?? "");
  if (digest === undefined || algorithm === undefined) return text;
  const hex = hexOf(digest.value, algorithm.hexLength);
  return `${algorithm.names[0]}:${hex ?? digest.value}`;
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
const printed: ReadonlyMap<number | undefined, string> = new Map(
  ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"].map((name) => [byName.get(name)?.hexLength, name] as const),
);

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
