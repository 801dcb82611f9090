import {
  errors,
  type FlattenedJWSInput,
  type JWSHeaderParameters,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
} from "jose";
import type { AuthSource, Caller } from "../base/caller.ts";
import type { Clock } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import { refusedToken } from "./challenge.ts";
import { type ClaimNames, callerFromClaims } from "./claims.ts";
import { bindingOf, type TokenBinding } from "./confirmation-method.ts";
import { signatureAlgorithms } from "./signature-algorithms.ts";
import { checkContentType, checkHeaderType } from "./token-type.ts";

/** An access token whose signature and claims stand. Says nothing about who sent it: that is the confirmation's. */
export interface VerifiedToken {
  readonly caller: Caller;
  readonly binding: TokenBinding;
  /** End of its life in milliseconds since the Unix epoch, tolerance not counted. */
  readonly expiresAtMs: number;
}

export interface TokenRules {
  /** Compared byte for byte with `iss`. */
  readonly issuer: string;
  /** Must be `aud` or in it. */
  readonly audience: string;
  /** Whether the header's `typ` must be `at+jwt` (RFC 9068 §4); else `JWT` and none will do. */
  readonly requireAtJwt: boolean;
  readonly claims: ClaimNames;
  /** What a caller with such a token comes from. */
  readonly authSource: AuthSource;
  /** Seconds by which the issuer's clock may differ from ours, for `exp`, `nbf` and `iat`. */
  readonly clockToleranceSeconds: number;
}

/** Finds the key that a token names; rejects with a `ServiceError` where there is none, or as jose's key sets do. */
export type FindKey = (
  header: JWSHeaderParameters,
  jws: FlattenedJWSInput,
  signal: AbortSignal,
) => Promise<Awaited<ReturnType<JWTVerifyGetKey>>>;

/**
 * Verifies an access token: `typ`, kind, algorithm, signature, `iss`, `aud`, `exp` (required), `nbf`, `iat`, and the claims
 * that name the caller. The headers `jku`, `jwk`, `x5u`, `x5c` are never looked at, an unknown `crit` is refused.
 * Does NOT check revocation, `jti`, or possession of a bound key.
 * @param signal ends the wait for the issuer's keys
 * @throws ServiceError `invalid_token`, `expired_token`, `issuer_unavailable`
 */
export async function verifyToken(
  token: string,
  rules: TokenRules,
  findKey: FindKey,
  clock: Clock,
  signal: AbortSignal,
): Promise<VerifiedToken> {
  const getKey: JWTVerifyGetKey = (header, jws) => {
    checkHeaderType(header, rules.requireAtJwt);
    return findKey(header, jws, signal);
  };
  const payload = await verifySignature(token, getKey, {
    algorithms: signatureAlgorithms,
    issuer: rules.issuer,
    audience: rules.audience,
    clockTolerance: rules.clockToleranceSeconds,
    currentDate: new Date(clock.now()),
  });
  checkContentType(payload);
  return {
    caller: callerFromClaims(payload, rules.claims, rules.authSource),
    binding: bindingOf(Object.hasOwn(payload, "cnf") ? payload.cnf : undefined),
    expiresAtMs: checkTimes(payload, clock.now() / 1000 + rules.clockToleranceSeconds) * 1000,
  };
}

async function verifySignature(
  token: string,
  findKey: JWTVerifyGetKey,
  options: Parameters<typeof jwtVerify>[2],
): Promise<JWTPayload> {
  try {
    return (await jwtVerify(token, findKey, options)).payload;
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw toRefusal(error);
    return verifyWithEach(token, error, options);
  }
}

/** A token without `kid` while several keys fit (an issuer without key ids, in the middle of a rotation). */
async function verifyWithEach(
  token: string,
  candidates: errors.JWKSMultipleMatchingKeys,
  options: Parameters<typeof jwtVerify>[2],
): Promise<JWTPayload> {
  for await (const key of candidates) {
    try {
      return (await jwtVerify(token, key, options)).payload;
    } catch (error) {
      if (isAboutClaims(error)) throw toRefusal(error);
    }
  }
  throw refusedToken("invalid_token", "the access token is not valid", errors.JWSSignatureVerificationFailed.code);
}

/** The signature stands, so that no other key needs to be tried. */
function isAboutClaims(error: unknown): boolean {
  return [errors.JWTExpired, errors.JWTClaimValidationFailed, errors.JWTInvalid].some((type) => error instanceof type);
}

/** What the library leaves open: no `exp`, an `iat` in the future, and the infinity that `1e999` becomes in JSON. */
function checkTimes(payload: JWTPayload, latestSeconds: number): number {
  const { exp, iat } = payload;
  if (exp === undefined || !Number.isFinite(exp)) throw refusedToken("invalid_token", "the access token is not valid");
  if (iat !== undefined && !(iat <= latestSeconds)) {
    throw refusedToken("invalid_token", "the access token was issued in the future");
  }
  return exp;
}

/** Keeps code and claim name for the log; the library's errors carry the claims and parts of the token itself. */
function toRefusal(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error;
  if (error instanceof errors.JWTExpired) return refusedToken("expired_token", "the access token expired", error.code);
  if (error instanceof errors.JWTClaimValidationFailed) {
    return refusedToken("invalid_token", "the access token is not valid", `${error.code} ${error.claim}`);
  }
  const cause = error instanceof errors.JOSEError ? error.code : error instanceof Error ? error.name : "unknown";
  return refusedToken("invalid_token", "the access token is not valid", cause);
}
