import { missingToken, refusedToken } from "./challenge.ts";
import type { EdgeRequest } from "./edge.ts";

/** credentials = auth-scheme [ 1*SP token68 ] (RFC 9110 §11.4, RFC 6750 §2.1) */
const credentials = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?: +([A-Za-z0-9._~+/-]+=*))?$/;

/**
 * Returns the bearer token of a call. Looks at the `Authorization` header alone: a token in the query or the body
 * (RFC 6750 §2.2, §2.3) is none.
 * @param maximumBytes longest token that is looked at; a longer one is refused unread
 * @throws ServiceError `missing_token` without credentials or with ones of another scheme; `invalid_token` where the
 *   header is there twice, malformed or too long
 */
export function readBearerToken(edge: EdgeRequest, maximumBytes: number): string {
  const values = edge.headerValues("authorization");
  if (values.length > 1) throw refusedToken("invalid_token", "more than one Authorization header");
  const value = values[0] ?? "";
  if (value === "") throw missingToken();
  if (value.length > maximumBytes + "Bearer ".length) {
    throw refusedToken("invalid_token", "the Authorization header is too long");
  }
  const parts = credentials.exec(value);
  if (parts === null) throw refusedToken("invalid_token", "the Authorization header is malformed");
  const [, scheme = "", token] = parts;
  if (scheme.toLowerCase() !== "bearer") throw missingToken();
  if (token === undefined) throw refusedToken("invalid_token", "the Authorization header carries no token");
  return token;
}
