/** Verifies an access token: first its content, then its signature. */
import { type CryptoKey, errors, type JWTPayload, jwtVerify } from "jose";
import type { Clock } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import type { FairLimits, FairSemaphore } from "../base/semaphore.ts";
import type { FindKeys } from "./candidate-keys.ts";
import { refusedToken, signatureAlgorithms } from "./challenge.ts";
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

/** Concurrent signature checks, one per thread. Others wait, in turns of issuers, or of tenants with DPoP. */
export const signatureLimits: FairLimits = { maximum: 4, maximumWaitingEach: 2_000, maximumWaiting: 20_000 };

export interface VerifierRules extends TokenRules {
  /** Turns for checking signatures; see `signatureLimits`. */
  readonly signatures: FairSemaphore;
}

/**
 * Verifies an access token: shape, `typ`, kind, algorithm, no `status`, `iss`, `aud`, `exp` (required), the claims that
 * name the caller, `nbf`, `iat`; then what its call can show without a signature (`mayVerify`); then its signature, so
 * that no key is looked up, fetched or used for a token that is refused anyway; then that its issuer is responsible for
 * the tenant. Does NOT check `jti`, or possession of a bound key.
 * @returns the token, or the refusal if another try would not change it unless the keys do
 * @throws ServiceError `invalid_token` for an unknown key or before its time, `issuer_unavailable`, what the context's
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
  // Check the verified payload again: nothing rests on the unverified one.
  checkNoStatus(payload);
  checkBegun(payload, latestSeconds);
  const verified = judgeClaims(payload, rules, nowSeconds);
  // After the signature, so that the issuer is not blamed for forged tokens.
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

/** Returns the payload of a token that one of the keys signed; undefined if none did. Waits for a turn for each key. */
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

/** Another key signed it, or this one is not allowed, such as an RSA key below 2,048 bits (RFC 7518 §3.3). */
function isAboutKey(error: unknown): boolean {
  return error instanceof errors.JWSSignatureVerificationFailed || error instanceof TypeError;
}

/** Keeps only the code for the log: the library's errors hold the claims and parts of the token. */
function toRefusal(error: unknown): ServiceError {
  const cause = error instanceof errors.JOSEError ? error.code : error instanceof Error ? error.name : "unknown";
  return refusedToken("invalid_token", "the access token is not valid", cause);
}
