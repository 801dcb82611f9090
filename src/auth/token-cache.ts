/** Verified access tokens, kept for a short time, so that a signature is not checked again for every call. */
import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Clock } from "../base/clock.ts";
import type { VerifiedToken } from "./token-verifier.ts";

/** Longest time that a token is not verified again; a key that is withdrawn ends it at once. */
const maximumAgeMs = 5 * 60_000;
/** Number of tokens that are kept, around 1 KiB each. The one that was not used for longest goes first. */
const maximumTokens = 10_000;

/** Verifies an access token, as `verifyToken` does. */
export type Verify = (token: string, signal: AbortSignal) => Promise<VerifiedToken>;

export interface TokenCacheOptions {
  readonly clock: Clock;
  /** As of the keys of all issuers: another value empties the cache, undefined keeps it empty. */
  readonly keyRevision: () => number | string | undefined;
  /** Seconds that a token lives beyond its `exp`; the verifier's own. */
  readonly clockToleranceSeconds: number;
}

interface Entry {
  readonly verified: VerifiedToken;
  readonly verifiedAtMs: number;
}

/**
 * Puts a cache in front of the verifier. It answers as the verifier would: `exp` is looked at on every hit, a change
 * of the key set empties it, and a refusal is never kept. Tokens are found by their SHA-256, so that memory holds
 * none. Does NOT check possession of a bound key, which belongs to the call and not to the token.
 */
export function cacheVerified(verify: Verify, options: TokenCacheOptions): Verify {
  const { clock, keyRevision, clockToleranceSeconds } = options;
  const tokens = new LRUCache<string, Entry>({ max: maximumTokens });
  let revisionOfTokens: number | string | undefined;

  function currentRevision(): number | string | undefined {
    const revision = keyRevision();
    if (revision !== revisionOfTokens) {
      tokens.clear();
      revisionOfTokens = revision;
    }
    return revision;
  }

  function isFresh({ verified, verifiedAtMs }: Entry): boolean {
    const nowMs = clock.now();
    // A clock that went back may be before the token's `nbf`.
    if (nowMs < verifiedAtMs || nowMs - verifiedAtMs >= maximumAgeMs) return false;
    return nowMs < verified.expiresAtMs + clockToleranceSeconds * 1000;
  }

  return async (token, signal) => {
    const revision = currentRevision();
    const key = hash("sha256", token, "base64");
    const entry = tokens.get(key);
    if (entry !== undefined && isFresh(entry)) return entry.verified;
    tokens.delete(key);
    const verifiedAtMs = clock.now();
    const verified = await verify(token, signal);
    // Keys that changed in the meantime may not be those that verified it.
    if (revision !== undefined && currentRevision() === revision) tokens.set(key, { verified, verifiedAtMs });
    return verified;
  };
}
