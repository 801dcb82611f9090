import { type CryptoKey, createLocalJWKSet, errors, type JWK } from "jose";
import { refusedToken, signatureAlgorithms } from "./challenge.ts";

export type KeySet = ReturnType<typeof createLocalJWKSet>;

/** The members of a token's header that choose its key. */
export interface TokenHeader {
  readonly alg: string;
  readonly kid?: string;
}

/** Most keys of a set that one token is checked against; the first ones are used. */
const maximumCandidates = 8;
const rsaBits = { least: 2_048, most: 4_096, exponent: 32 };

/**
 * Finds the keys that a token may be signed with. Calls `mayFetch` before a fetch for this token alone, and rejects
 * with what it throws.
 * @returns at least one; several for a token without `kid` that several keys fit (an issuer without key ids, during a
 *   rotation)
 * @throws ServiceError if there is none
 */
export type FindKeys = (
  header: TokenHeader,
  signal: AbortSignal,
  mayFetch: () => void,
) => Promise<readonly CryptoKey[]>;

export function unknownKey(): Error {
  return refusedToken("invalid_token", "the access token is signed by an unknown key");
}

/** Returns the keys of the set that fit `kid` and `alg`. */
export async function candidateKeys(keys: KeySet, { alg, kid }: TokenHeader): Promise<readonly CryptoKey[]> {
  try {
    return [await keys(kid === undefined ? { alg } : { alg, kid })];
  } catch (error) {
    if (error instanceof errors.JWKSNoMatchingKey) return [];
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    const candidates: CryptoKey[] = [];
    for await (const key of error) if (candidates.push(key) === maximumCandidates) break;
    return candidates;
  }
}

/**
 * Returns why a published key cannot be used: "other" if no supported algorithm uses it, else the problem; undefined if
 * there is none. A usable key is public and importable; an RSA key has 2,048 to 4,096 bits (RFC 7518 §3.3) and an odd
 * exponent of at least 3 and at most 32 bits, which bounds its cost.
 */
export async function keyProblem(key: JWK): Promise<string | undefined> {
  for (const alg of signatureAlgorithms) {
    try {
      await createLocalJWKSet({ keys: [key] })({ alg });
      return rsaProblem(key);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) return "cannot be imported";
    }
  }
  return "other";
}

/** As `keyProblem`, for RSA only; importing detects malformed keys. */
export function rsaProblem({ kty, n, e }: JWK): string | undefined {
  if (kty !== "RSA" || typeof n !== "string" || typeof e !== "string") return undefined;
  const [modulus, exponent] = [bigEndian(n), bigEndian(e)];
  if (modulus.bits < rsaBits.least || modulus.bits > rsaBits.most) return `has ${modulus.bits} bits`;
  if (exponent.bits > rsaBits.exponent) return `has an exponent of ${exponent.bits} bits`;
  return exponent.bits < 2 || !exponent.isOdd ? "has an exponent that is not an odd number of at least 3" : undefined;
}

function bigEndian(text: string): { readonly bits: number; readonly isOdd: boolean } {
  const bytes = Buffer.from(text, "base64url");
  const first = bytes.findIndex((byte) => byte !== 0);
  const bits = first < 0 ? 0 : (bytes.length - first) * 8 - Math.clz32(bytes[first] as number) + 24;
  return { bits, isOdd: ((bytes.at(-1) ?? 0) & 1) === 1 };
}
