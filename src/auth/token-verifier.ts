/** Verifies an access token: first its content, then its signature. */
import { type CryptoKey, decodeJwt, decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from "jose";
import type { AuthSource } from "../base/caller.ts";
import { type Clock, clockToleranceSeconds } from "../base/clock.ts";
import type { ServiceError } from "../base/errors.ts";
import type { FairLimits, FairSemaphore } from "../base/fair-queue.ts";
import type { TenantId } from "../base/ids.ts";
import { type IssuerEntry, speaksFor } from "../base/issuers.ts";
import type { FindKeys, TokenHeader } from "./candidate-keys.ts";
import { refusedToken, signatureAlgorithms } from "./challenge.ts";
import { callerFromClaims, type ReadAttributes } from "./claims.ts";
import { bindingOf } from "./confirmation.ts";
import type { CallContext, Verification, VerifiedToken } from "./token-cache.ts";

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
 * @returns the token, or the refusal for its signature or its tenant
 * @throws ServiceError `invalid_token` or `expired_token` for its content or an unknown key, `issuer_unavailable`, what
 *   the context's `mayVerify` throws, the signal's reason once aborted
 */
export async function verifyToken(
  token: string,
  rules: VerifierRules,
  findKeys: FindKeys,
  clock: Clock,
  { signal, mayVerify }: CallContext,
): Promise<Verification> {
  const nowSeconds = Math.floor(clock.now() / 1000);
  const latestSeconds = nowSeconds + clockToleranceSeconds;
  const judge = (payload: JWTPayload) => {
    checkNoStatus(payload);
    const judged = judgeClaims(payload, rules, nowSeconds);
    checkBegun(payload, latestSeconds);
    return judged;
  };
  const read = readToken(token, rules);
  const claimed = judge(read.payload);
  await mayVerify(claimed);
  const keys = await findKeys(read.header, signal, () => {
    if (isForeign(claimed, rules)) throw foreignTenant;
  });
  const turn = <T>(check: () => Promise<T>) => rules.signatures.run(rules.issuer, check, signal);
  const payload = await verifiedPayload(token, keys, turn, {
    algorithms: signatureAlgorithms,
    issuer: rules.issuer,
    audience: rules.audience,
    clockTolerance: clockToleranceSeconds,
    currentDate: new Date(nowSeconds * 1000),
  });
  if (payload === undefined) return { refusal: badSignature };
  // Check the verified payload again: nothing rests on the unverified one.
  const verified = judge(payload);
  // After the signature, so that the issuer is not blamed for forged tokens.
  if (!isForeign(verified, rules)) return verified;
  rules.onOverreach(verified.caller.tenantId);
  return { refusal: foreignTenant };
}

// Cached refusals share one error each.
const badSignature = refusedToken("invalid_token", "the access token is not valid", "token signature");
export const foreignTenant = refusedToken(
  "invalid_token",
  "the token issuer may not speak for this tenant",
  "token tenant",
);

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

// Checks a token's content without a key: this can only refuse, and costs far less than a signature.

/** Requirements of a token: `iss` and `aud` (in it) byte for byte, `typ` (RFC 9068 §4), the caller's claims. */
export interface TokenRules extends IssuerEntry {
  readonly readAttributes: ReadAttributes;
  /** Authentication source of callers with such a token. */
  readonly authSource: AuthSource;
  /** Called for a token that its issuer signed for a foreign tenant. Must not throw. */
  readonly onOverreach: (tenantId: TenantId) => void;
}

/** A parsed token, not verified. */
interface ReadToken {
  readonly header: TokenHeader;
  readonly payload: JWTPayload;
}

/** JWS compact serialization (RFC 7515 §7.1): three parts of base64url without padding. */
const compactForm = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/**
 * Parses a token and checks its header: shape, `typ`, `alg`, `kid`, and that `crit` is absent, because no extension is
 * supported (RFC 7515 §4.1.11). `jku`, `jwk`, `x5u`, `x5c` are ignored.
 * @throws ServiceError `invalid_token`
 */
function readToken(token: string, rules: TokenRules): ReadToken {
  if (!compactForm.test(token)) throw invalid("form");
  const { typ, alg, kid, crit } = decoded(() => decodeProtectedHeader(token));
  checkHeaderType(typ, rules.requireAtJwt);
  if (alg === undefined || !signatureAlgorithms.includes(alg)) throw invalid("alg");
  if (kid !== undefined && typeof kid !== "string") throw invalid("kid");
  if (crit !== undefined) throw invalid("crit");
  return { header: { alg, ...(kid !== undefined && { kid }) }, payload: decoded(() => decodeJwt(token)) };
}

/**
 * Checks the claims whose faults are permanent: `iss`, `aud`, the kind of token, `exp`, and those that name the caller.
 * `checkBegun` checks `iat` and `nbf`.
 * @param nowSeconds seconds since the Unix epoch
 * @throws ServiceError `invalid_token`, `expired_token`
 */
export function judgeClaims(payload: JWTPayload, rules: TokenRules, nowSeconds: number): VerifiedToken {
  const { iss, aud, exp, nbf, iat } = payload;
  if (iss !== rules.issuer) throw invalid("iss");
  if (aud !== rules.audience && !(Array.isArray(aud) && aud.includes(rules.audience))) throw invalid("aud");
  checkContentType(payload);
  // JSON has no infinity, but parsers read 1e999 as one.
  if (!Number.isFinite(exp)) throw invalid("exp");
  for (const [name, value] of [["nbf", nbf] as const, ["iat", iat] as const]) {
    if (value !== undefined && typeof value !== "number") throw invalid(name);
  }
  const expiresAtSeconds = exp as number;
  if (expiresAtSeconds <= nowSeconds - clockToleranceSeconds) {
    throw refusedToken("expired_token", "the access token expired", "token exp");
  }
  return {
    caller: callerFromClaims(payload, rules, rules.authSource, rules.readAttributes),
    binding: bindingOf(Object.hasOwn(payload, "cnf") ? payload.cnf : undefined),
    expiresAtMs: expiresAtSeconds * 1000,
  };
}

/** Whether the token is for a tenant that is not the issuer's. */
export function isForeign({ caller }: VerifiedToken, { tenants }: TokenRules): boolean {
  return !speaksFor(tenants, caller.tenantId);
}

/** @throws ServiceError `invalid_token` for a token that is not valid yet */
export function checkBegun({ nbf = 0, iat = 0 }: JWTPayload, latestSeconds: number): void {
  if (nbf > latestSeconds) throw invalid("nbf");
  if (iat > latestSeconds) throw refusedToken("invalid_token", "the access token was issued in the future");
}

/**
 * For JWTs that are verified here. A `status` that is not an object is another claim.
 * @throws ServiceError `invalid_token` for a token whose issuer can revoke it in a way that is not supported
 */
function checkNoStatus({ status }: JWTPayload): void {
  if (typeof status === "object" && status !== null)
    throw refusedToken("invalid_token", "the access token names a status, which is not looked up", "token status");
}

function decoded<T>(decode: () => T): T {
  try {
    return decode();
  } catch {
    throw invalid("form");
  }
}

/** The name of the faulty part goes to the log. */
function invalid(what: string): Error {
  return refusedToken("invalid_token", "the access token is not valid", `token ${what}`);
}

/** Media types of access tokens, lowercase (RFC 9068 §2.1). */
const accessTokenTypes: ReadonlySet<unknown> = new Set(["at+jwt", "application/at+jwt"]);
/** The same, and what issuers from before RFC 9068 write: `JWT`, or nothing. */
const lenientTypes: ReadonlySet<unknown> = new Set([...accessTokenTypes, "jwt", undefined]);

/** Claims that access tokens never have. */
const foreignClaims = [
  // ID tokens: OpenID Connect Core §2, §3.1.3.6, §3.3.2.11; FAPI 1.0 part 2 §5.1.
  ...["nonce", "at_hash", "c_hash", "s_hash"],
  // Security event tokens, logout tokens among them: RFC 8417 §2.2, OpenID Connect Back-Channel Logout §2.4.
  "events",
];

/** Claims in which some issuers name the kind of token; lowercase values for access tokens. */
const kindClaims = [
  // Keycloak; other values are ID, Refresh, Offline, Logout and more.
  ["typ", ["bearer", "dpop"]],
  // Amazon Cognito; the other value is id.
  ["token_use", ["access"]],
] as const;

/** Checks `typ` of the header. @throws ServiceError `invalid_token` */
function checkHeaderType(typ: unknown, requireAtJwt: boolean): void {
  const type = typeof typ === "string" ? typ.toLowerCase() : typ;
  if ((requireAtJwt ? accessTokenTypes : lenientTypes).has(type)) return;
  throw refusedToken("invalid_token", "the access token is of another type");
}

/** Checks the kind of token in its claims, for any header. @throws ServiceError `invalid_token` */
function checkContentType(payload: JWTPayload): void {
  const foreign = foreignClaims.some((name) => Object.hasOwn(payload, name));
  const otherKind = kindClaims.some(([name, kinds]) => Object.hasOwn(payload, name) && !isOneOf(payload[name], kinds));
  if (foreign || otherKind) throw refusedToken("invalid_token", "the token is not an access token");
}

function isOneOf(value: unknown, kinds: readonly string[]): boolean {
  return typeof value === "string" && kinds.includes(value.toLowerCase());
}
