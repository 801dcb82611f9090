import { type CryptoKey, type createLocalJWKSet, errors } from "jose";
import type { TokenHeader } from "./token-claims.ts";

export type KeySet = ReturnType<typeof createLocalJWKSet>;

/**
 * Finds the keys that a token may be signed with. `mayFetch` is called before a fetch is made for this token alone;
 * what it throws, the call is refused with.
 * @returns at least one: several for a token without `kid` that several keys fit (an issuer without key ids, in the
 *   middle of a rotation)
 * @throws ServiceError where there is none
 */
export type FindKeys = (
  header: TokenHeader,
  signal: AbortSignal,
  mayFetch: () => void,
) => Promise<readonly CryptoKey[]>;

/** The keys of the set that fit `kid` and `alg`; none where no key does. */
export async function candidateKeys(keys: KeySet, { alg, kid }: TokenHeader): Promise<readonly CryptoKey[]> {
  try {
    return [await keys(kid === undefined ? { alg } : { alg, kid })];
  } catch (error) {
    if (error instanceof errors.JWKSNoMatchingKey) return [];
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    const candidates: CryptoKey[] = [];
    for await (const key of error) candidates.push(key);
    return candidates;
  }
}
