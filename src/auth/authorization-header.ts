import { missingToken, refusedToken, type TokenScheme } from "./challenge.ts";
import type { InboundRequest } from "./inbound-request.ts";

/** credentials = auth-scheme [ 1*SP token68 ] (RFC 9110 §11.4, RFC 6750 §2.1, RFC 9449 §7.1) */
const credentials = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?: +([A-Za-z0-9._~+/-]+=*))?$/;

/**
 * Returns the access token of a call. Looks at the `Authorization` header alone: a token in the query or the body
 * (RFC 6750 §2.2, §2.3) is none.
 * @param scheme the only one that counts: a token that is bound to a DPoP key must not come as a bearer token
 *   (RFC 9449 §7.1), and one that is not must not come under the scheme that says it is
 * @param maximumBytes longest token that is looked at; a longer one is refused unread
 * @throws ServiceError `missing_token` without credentials or with ones of another scheme; `invalid_token` where the
 *   header is there twice, malformed or too long; `proof_of_possession_failed` for a bearer token where DPoP is asked
 */
export function readAccessToken(inbound: InboundRequest, scheme: TokenScheme, maximumBytes: number): string {
  const values = inbound.headerValues("authorization");
  if (values.length > 1) throw refusedToken("invalid_token", "more than one Authorization header");
  const value = values[0] ?? "";
  if (value === "") throw missingToken();
  if (value.length > maximumBytes + scheme.length + 1) {
    throw refusedToken("invalid_token", "the Authorization header is too long");
  }
  const parts = credentials.exec(value);
  if (parts === null) throw refusedToken("invalid_token", "the Authorization header is malformed");
  const [, given = "", token] = parts;
  if (given.toLowerCase() !== scheme.toLowerCase()) {
    if (scheme === "Bearer" || given.toLowerCase() !== "bearer") throw missingToken();
    throw refusedToken("proof_of_possession_failed", "the access token must come with the DPoP scheme and a proof");
  }
  if (token === undefined) throw refusedToken("invalid_token", "the Authorization header carries no token");
  return token;
}

/** The scheme under which a call that was let in presented its token; `Bearer` where it presented none. */
export function presentedScheme(inbound: InboundRequest): TokenScheme {
  return /^dpop /i.test(inbound.headerValues("authorization")[0] ?? "") ? "DPoP" : "Bearer";
}
