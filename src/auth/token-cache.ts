/** Cache of verified and refused access tokens, so that not every call needs a signature check. */
import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Caller } from "../base/caller.ts";
import { type Clock, clockToleranceSeconds } from "../base/clock.ts";
import type { ServiceError } from "../base/errors.ts";
import type { TokenBinding } from "./confirmation.ts";

/** Longest time that a result is cached; a change of keys ends it at once. */
const maximumAgeMs = 5 * 60_000;
/**
 * Cached verified tokens, about 1 KiB each; the least recently used are evicted. Each issuer has a separate cache, so
 * that one issuer's callers cannot evict another's; more than four issuers share the total of four.
 */
const roomOf = (issuers: number) => Math.floor(Math.min(1, 4 / issuers) * 10_000);
/** Cached refused tokens, about 200 bytes each. */
const refusedRoomOf = (issuers: number) => Math.floor(Math.min(1, 4 / issuers) * 4_096);

/** An access token with valid signature and claims. Does not cover who sent it, which `confirm` checks. */
export interface VerifiedToken {
  readonly caller: Caller;
  readonly binding: TokenBinding;
  /** Expiry in milliseconds since the Unix epoch, without tolerance. */
  readonly expiresAtMs: number;
  /** When the token must be verified again, in milliseconds since the Unix epoch; absent if only at its expiry. */
  readonly lookAgainAtMs?: number;
}

/** A token that is refused for its signature, or by its issuer's answer: that does not change unless the keys do. */
interface RefusedToken {
  readonly refusal: ServiceError;
  readonly lookAgainAtMs?: number;
}

export type Verification = VerifiedToken | RefusedToken;

export interface CallContext {
  /** The call's deadline, which also ends the wait for the issuer's keys. */
  readonly signal: AbortSignal;
  /** Rejects if a token with these claims is not worth verifying; `unknown` for an opaque token. */
  readonly mayVerify: (claimed: VerifiedToken | "unknown") => Promise<void>;
}

export type Verify = (token: string, context: CallContext) => Promise<Verification>;
/** The same, but throws refusals. */
export type RequireVerified = (token: string, context: CallContext) => Promise<VerifiedToken>;

interface TokenCacheOptions {
  readonly clock: Clock;
  /** Of the issuer's keys: a new value empties the cache, undefined disables it. */
  readonly keyRevision: () => number | undefined;
  /** Number of issuers with a cache, this one included. Default 1. */
  readonly issuers?: number;
  /** Of the declared attributes: a new value empties the cache. */
  readonly attributeRevision: () => number;
}

interface Entry<T extends Verification> {
  readonly value: T;
  readonly atMs: number;
}

/**
 * Wraps the verifier in a cache with the same results: every hit checks `exp`, a change of the key set or the declared
 * attributes empties the cache, and thrown errors are never cached, such as those for the claims of a token, which cost
 * far less than a signature. Keys are the SHA-256 of tokens, so that memory holds none. Does NOT check possession of a
 * bound key, which belongs to the call.
 */
export function cacheVerifications(
  verify: Verify,
  { clock, keyRevision, attributeRevision, issuers = 1 }: TokenCacheOptions,
): RequireVerified {
  const verified = new LRUCache<string, Entry<VerifiedToken>>({ max: roomOf(issuers) });
  const refused = new LRUCache<string, Entry<RefusedToken>>({ max: refusedRoomOf(issuers) });
  let keysOfTokens: number | undefined;
  let attributesOfTokens = attributeRevision();
  let revision = 0;

  function currentRevision(): number | undefined {
    const keys = keyRevision();
    const attributes = attributeRevision();
    if (keys !== keysOfTokens || attributes !== attributesOfTokens) {
      verified.clear();
      refused.clear();
      keysOfTokens = keys;
      attributesOfTokens = attributes;
      revision++;
    }
    return keys === undefined ? undefined : revision;
  }

  /** False for entries of the future: if the clock went back, a token may be before its `nbf`, or valid again. */
  function isRecent({ atMs, value: { lookAgainAtMs = Number.POSITIVE_INFINITY } }: Entry<Verification>): boolean {
    const ageMs = clock.now() - atMs;
    return ageMs >= 0 && ageMs < maximumAgeMs && clock.now() < lookAgainAtMs;
  }

  function remembered(key: string): VerifiedToken | undefined {
    const entry = verified.get(key);
    if (entry !== undefined) {
      const endsAtMs = entry.value.expiresAtMs + clockToleranceSeconds * 1000;
      if (isRecent(entry) && clock.now() < endsAtMs) return entry.value;
      verified.delete(key);
      return undefined;
    }
    const refusal = refused.get(key);
    if (refusal !== undefined && isRecent(refusal)) throw refusal.value.refusal;
    return undefined;
  }

  return async (token: string, context: CallContext): Promise<VerifiedToken> => {
    const before = currentRevision();
    const key = hash("sha256", token, "base64");
    const known = remembered(key);
    if (known !== undefined) return known;
    const atMs = clock.now();
    const verification = await verify(token, context);
    // The result may rest on keys or attributes that have changed meanwhile.
    const keep = before !== undefined && currentRevision() === before;
    if ("refusal" in verification) {
      if (keep) refused.set(key, { value: verification, atMs });
      throw verification.refusal;
    }
    if (keep) verified.set(key, { value: verification, atMs });
    return verification;
  };
}
