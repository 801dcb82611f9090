/** Checks a token's content without a key: this can only refuse, and costs far less than a signature. */
import { decodeJwt, decodeProtectedHeader, type JWTPayload } from "jose";
import type { AuthSource } from "../base/caller.ts";
import type { ServiceError } from "../base/errors.ts";
import type { TenantId } from "../base/ids.ts";
import { type IssuerEntry, speaksFor } from "../base/issuers.ts";
import type { ReadAttributes } from "./attributes.ts";
import { refusedToken, signatureAlgorithms } from "./challenge.ts";
import { callerFromClaims } from "./claims.ts";
import { bindingOf } from "./confirmation.ts";
import type { VerifiedToken } from "./token-cache.ts";

/** Requirements of a token: `iss` and `aud` (in it) byte for byte, `typ` (RFC 9068 §4), the caller's claims. */
export interface TokenRules extends IssuerEntry {
  readonly readAttributes: ReadAttributes;
  /** Authentication source of callers with such a token. */
  readonly authSource: AuthSource;
  /** Seconds by which the issuer's clock may differ from ours, for `exp`, `nbf` and `iat`. */
  readonly clockToleranceSeconds: number;
  /** Called for a token that its issuer signed for a foreign tenant. Must not throw. */
  readonly onOverreach: (tenantId: TenantId) => void;
}

/** The members of a token's header that choose its key. */
export interface TokenHeader {
  readonly alg: string;
  readonly kid?: string;
}

/** A parsed token, not verified. */
export interface ReadToken {
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
export function readToken(token: string, rules: TokenRules): ReadToken {
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
  if (expiresAtSeconds <= nowSeconds - rules.clockToleranceSeconds) {
    throw refusedToken("expired_token", "the access token expired", "token exp");
  }
  return {
    caller: callerFromClaims(payload, rules, rules.authSource, rules.readAttributes),
    binding: bindingOf(Object.hasOwn(payload, "cnf") ? payload.cnf : undefined),
    expiresAtMs: expiresAtSeconds * 1000,
  };
}

/** Refuses a token for a tenant that is not the issuer's; undefined if it is. */
export function foreignTenant({ caller }: VerifiedToken, { tenants }: TokenRules): ServiceError | undefined {
  if (speaksFor(tenants, caller.tenantId)) return undefined;
  return refusedToken("invalid_token", "the token issuer may not speak for this tenant", "token tenant");
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
export function checkNoStatus({ status }: JWTPayload): void {
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
export function checkHeaderType(typ: unknown, requireAtJwt: boolean): void {
  const type = typeof typ === "string" ? typ.toLowerCase() : typ;
  if ((requireAtJwt ? accessTokenTypes : lenientTypes).has(type)) return;
  throw refusedToken("invalid_token", "the access token is of another type");
}

/** Checks the kind of token in its claims, for any header. @throws ServiceError `invalid_token` */
export function checkContentType(payload: JWTPayload): void {
  const foreign = foreignClaims.some((name) => Object.hasOwn(payload, name));
  const otherKind = kindClaims.some(([name, kinds]) => Object.hasOwn(payload, name) && !isOneOf(payload[name], kinds));
  if (foreign || otherKind) throw refusedToken("invalid_token", "the token is not an access token");
}

function isOneOf(value: unknown, kinds: readonly string[]): boolean {
  return typeof value === "string" && kinds.includes(value.toLowerCase());
}
