/** Access tokens that were verified or refused, kept for a short time, so that no signature is checked for every call. */
import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Caller } from "../../base/caller.ts";
import type { Clock } from "../../base/clock.ts";
import type { ServiceError } from "../../base/errors.ts";
import type { TokenBinding } from "../proof/confirmation-method.ts";

/** Longest time that a token is not looked at again; a change of keys ends it at once. */
const maximumAgeMs = 5 * 60_000;
/**
 * Verified tokens that are kept, around 1 KiB each. The one that was not used for longest goes first. Each issuer has
 * room of its own, so that the callers of one do not drive out another's; many issuers share what four would have.
 */
const roomOf = (issuers: number) => Math.floor(Math.min(1, 4 / issuers) * 10_000);
/** Refused tokens of each kind that are kept, around 200 bytes each. */
const refusedRoomOf = (issuers: number) => Math.floor(Math.min(1, 4 / issuers) * 4_096);

/** An access token whose signature and claims stand. Says nothing about who sent it: that is the confirmation's. */
export interface VerifiedToken {
  readonly caller: Caller;
  readonly binding: TokenBinding;
  /** End of its life in milliseconds since the Unix epoch, tolerance not counted. */
  readonly expiresAtMs: number;
  /** When it is to be looked at again, in milliseconds since the Unix epoch; absent where nothing but its end says so. */
  readonly lookAgainAtMs?: number;
}

/** A token that is refused for what its bytes are: time makes it no better, and other keys alone could. */
export interface RefusedToken {
  readonly refusal: ServiceError;
  /** What it was refused for: what it says, or its signature, or what its issuer says of it. */
  readonly by: "claims" | "signature";
  readonly lookAgainAtMs?: number;
}

export type Verification = VerifiedToken | RefusedToken;

/** The call that a token came with. */
export interface CallContext {
  /** Its deadline: ends the wait for the issuer's keys. */
  readonly signal: AbortSignal;
  /**
   * Rejects with the refusal if nothing is to be computed, fetched or asked for a token that claims this; `unknown` if
   * it says nothing to us.
   */
  readonly mayVerify: (claimed: VerifiedToken | "unknown") => Promise<void>;
}

/** Verifies an access token, as `verifyToken` does. */
export type Verify = (token: string, context: CallContext) => Promise<Verification>;
/** The same, where a refusal is thrown. */
export type RequireVerified = (token: string, context: CallContext) => Promise<VerifiedToken>;

export interface TokenCacheOptions {
  readonly clock: Clock;
  /** As of the issuer's keys: another value empties the cache, undefined keeps it empty. */
  readonly keyRevision: () => number | undefined;
  /** How many issuers have a cache, this one included. Default 1. */
  readonly issuers?: number;
  /** As of what is read of callers: another value empties the cache. */
  readonly attributeRevision: () => number;
  /** Seconds that a token lives beyond its `exp`; the verifier's own. */
  readonly clockToleranceSeconds: number;
}

interface Entry<T> {
  readonly value: T;
  readonly atMs: number;
  readonly lookAgainAtMs: number | undefined;
}

/**
 * Puts a cache in front of the verifier. It answers as the verifier would: `exp` is looked at on every hit, a change
 * of the key set, or of what is read of callers, empties it, and what the verifier throws is never kept. Tokens are
 * found by their SHA-256, so that memory holds none. Tokens refused for what they say have a room of their own, so that
 * none of those, which cost their sender nothing, drive out one whose signature would have to be checked again. Does NOT check possession of a
 * bound key, which belongs to the call and not to the token.
 */
export function cacheVerifications(
  verify: Verify,
  { clock, keyRevision, attributeRevision, clockToleranceSeconds, issuers = 1 }: TokenCacheOptions,
): RequireVerified {
  const maximumRefused = refusedRoomOf(issuers);
  const verified = new LRUCache<string, Entry<VerifiedToken>>({ max: roomOf(issuers) });
  const refused = {
    claims: new LRUCache<string, Entry<ServiceError>>({ max: maximumRefused }),
    signature: new LRUCache<string, Entry<ServiceError>>({ max: maximumRefused }),
  };
  const rooms = [verified, refused.claims, refused.signature];
  const share = sharedRefusals();
  let keysOfTokens: number | undefined;
  let attributesOfTokens = attributeRevision();
  let revision = 0;

  function currentRevision(): number | undefined {
    const keys = keyRevision();
    const attributes = attributeRevision();
    if (keys !== keysOfTokens || attributes !== attributesOfTokens) {
      for (const room of rooms) room.clear();
      keysOfTokens = keys;
      attributesOfTokens = attributes;
      revision++;
    }
    return keys === undefined ? undefined : revision;
  }

  /** A clock that went back may be before a token's `nbf`, or before the `exp` that it was refused for. */
  function isRecent({ atMs, lookAgainAtMs = Number.POSITIVE_INFINITY }: Entry<unknown>): boolean {
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
    const refusal = refused.claims.get(key) ?? refused.signature.get(key);
    if (refusal !== undefined && isRecent(refusal)) throw refusal.value;
    return undefined;
  }

  return async (token: string, context: CallContext): Promise<VerifiedToken> => {
    const before = currentRevision();
    const key = hash("sha256", token, "base64");
    const known = remembered(key);
    if (known !== undefined) return known;
    const atMs = clock.now();
    const verification = await verify(token, context);
    // What changed in the meantime may not be what it was judged by.
    const keep = before !== undefined && currentRevision() === before;
    const { lookAgainAtMs } = verification;
    if ("refusal" in verification) {
      const refusal = share(verification.refusal);
      if (keep) refused[verification.by].set(key, { value: refusal, atMs, lookAgainAtMs });
      throw refusal;
    }
    if (keep) verified.set(key, { value: verification, atMs, lookAgainAtMs });
    return verification;
  };
}

/** One error for all refusals that read the same: their texts are constants, and each would carry a stack of its own. */
function sharedRefusals(): (refusal: ServiceError) => ServiceError {
  const shared = new Map<string, ServiceError>();
  return (refusal) => {
    const text = `${refusal.reason} ${refusal.message} ${String(refusal.details.cause)}`;
    const known = shared.get(text) ?? refusal;
    shared.set(text, known);
    return known;
  };
}
