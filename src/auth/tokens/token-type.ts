/**
 * Distinguishes access tokens from other JWTs that an issuer signs with the same keys, and for the same audience if a
 * client has the name of its API. Accepting one of the others would let its holder in (RFC 8725 §3.11, §3.12).
 */
import type { JWTPayload } from "jose";
import { refusedToken } from "../challenge.ts";

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
