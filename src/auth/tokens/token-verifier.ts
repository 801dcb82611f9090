/** Verifying an access token: what it says, then who signed it. */
import { type CryptoKey, errors, type JWTPayload, jwtVerify } from "jose";
import type { Clock } from "../../base/clock.ts";
import { ServiceError } from "../../base/errors.ts";
import type { FairLimits, FairSemaphore } from "../../base/semaphore.ts";
import { refusedToken, signatureAlgorithms } from "../challenge.ts";
import type { FindKeys } from "./candidate-keys.ts";
import type { CallContext, RefusedToken, Verification, VerifiedToken } from "./token-cache.ts";
import {
  checkBegun,
  checkNoStatus,
  foreignTenant,
  judgeClaims,
  type ReadToken,
  readToken,
  type TokenRules,
} from "./token-claims.ts";

/**
 * Signatures that are checked at a time: as many as there are threads for it. What strangers sent waits before that,
 * in turns of the issuers, and of the tenants whose callers send proofs.
 */
export const signatureLimits: FairLimits = { maximum: 4, maximumWaitingEach: 2_000, maximumWaiting: 20_000 };

export interface VerifierRules extends TokenRules {
  /** Turns at checking signatures; see `signatureLimits`. */
  readonly signatures: FairSemaphore;
}

/**
 * Verifies an access token: shape, `typ`, kind, algorithm, no `status`, `iss`, `aud`, `exp` (required), the claims that
 * name the caller, `nbf`, `iat`; then what its call can show without a signature (`mayVerify`); then its signature, so that no key
 * is looked for, fetched or computed with for a token that is refused anyway; then that its issuer may speak for the tenant. Does NOT check `jti`, or possession of a bound key.
 * @returns the token, or the refusal where another look would not change it unless the keys do
 * @throws ServiceError `invalid_token` of an unknown key or before its time, `issuer_unavailable`, what the context's
 *   `mayVerify` throws, the signal's reason once aborted
 */
export async function verifyToken(
  token: string,
  rules: VerifierRules,
  findKeys: FindKeys,
  clock: Clock,
  { signal, mayVerify }: CallContext,
): Promise<Verification> {
  const nowSeconds = Math.floor(clock.now() / 1000);
  const claimed = readAndJudge(token, rules, nowSeconds);
  if ("refusal" in claimed) return claimed;
  const latestSeconds = nowSeconds + rules.clockToleranceSeconds;
  checkBegun(claimed.payload, latestSeconds);
  await mayVerify(claimed.judged);
  const keys = await findKeys(claimed.header, signal, () => {
    const refusal = foreignTenant(claimed.judged, rules);
    if (refusal !== undefined) throw refusal;
  });
  const turn = <T>(check: () => Promise<T>) => rules.signatures.run(rules.issuer, check, signal);
  const payload = await verifiedPayload(token, keys, turn, {
    algorithms: signatureAlgorithms,
    issuer: rules.issuer,
    audience: rules.audience,
    clockTolerance: rules.clockToleranceSeconds,
    currentDate: new Date(nowSeconds * 1000),
  });
  if (payload === undefined) {
    const refusal = refusedToken("invalid_token", "the access token is not valid", "token signature");
    return { refusal, by: "signature" };
  }
  // Judged again as it was verified: nothing rests on what an unverified token was read as.
  checkNoStatus(payload);
  checkBegun(payload, latestSeconds);
  const verified = judgeClaims(payload, rules, nowSeconds);
  // After the signature, so that the issuer is not blamed for what others wrote.
  const refusal = foreignTenant(verified, rules);
  if (refusal !== undefined) {
    rules.onOverreach(verified.caller.tenantId);
    return { refusal, by: "signature" };
  }
  return verified;
}

interface JudgedToken extends ReadToken {
  readonly judged: VerifiedToken;
}

function readAndJudge(token: string, rules: TokenRules, nowSeconds: number): JudgedToken | RefusedToken {
  try {
    const read = readToken(token, rules);
    checkNoStatus(read.payload);
    return { ...read, judged: judgeClaims(read.payload, rules, nowSeconds) };
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return { refusal: error, by: "claims" };
  }
}

/** The payload of a token that one of the keys signed; undefined where none did. Waits for a turn for each key. */
async function verifiedPayload(
  token: string,
  keys: readonly CryptoKey[],
  turn: <T>(check: () => Promise<T>) => Promise<T>,
  options: Parameters<typeof jwtVerify>[2],
): Promise<JWTPayload | undefined> {
  for (const key of keys) {
    const payload = await turn(async () => {
      try {
        return (await jwtVerify(token, key, options)).payload;
      } catch (error) {
        if (isAboutKey(error)) return undefined;
        throw toRefusal(error);
      }
    });
    if (payload !== undefined) return payload;
  }
  return undefined;
}

/** Another key did it, or this is none that may be used, such as an RSA key below 2,048 bits (RFC 7518 §3.3). */
function isAboutKey(error: unknown): boolean {
  return error instanceof errors.JWSSignatureVerificationFailed || error instanceof TypeError;
}

/** Keeps the code for the log; the library's errors carry the claims and parts of the token itself. */
function toRefusal(error: unknown): ServiceError {
  const cause = error instanceof errors.JOSEError ? error.code : error instanceof Error ? error.name : "unknown";
  return refusedToken("invalid_token", "the access token is not valid", cause);
}
