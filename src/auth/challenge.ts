/**
 * Refusals of credentials, each with its `WWW-Authenticate` challenge (RFC 6750 §3, RFC 9449 §7.1). Messages are
 * constants without `"` or `\`: text of the caller is never repeated.
 */
import { ServiceError } from "../base/errors.ts";
import type { InboundRequest } from "../base/inbound-request.ts";

export type TokenScheme = "Bearer" | "DPoP";

/**
 * Accepted signature algorithms of access tokens and DPoP proofs: only asymmetric ones, so that a public key can never
 * serve as a secret, and listed here, so that a new version of a library adds none. RSA keys have at least 2048 bits
 * (RFC 7518 §3.3).
 */
export const signatureAlgorithms = [
  ...["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
  ...["ES256", "ES384", "ES512", "EdDSA", "Ed25519"],
];

/** The protection space (RFC 9110 §11.5): the routes under `/v1/sdk/`. */
const realm = 'realm="sdk"';
/** Algorithms of proofs (RFC 9449 §7.1). */
const algs = `algs="${signatureAlgorithms.join(" ")}"`;

/**
 * 401 for a call without credentials. HTTP requires a challenge on every 401 (RFC 9110 §15.5.2). RFC 6750 §3.1: no error
 * code, since nothing was presented.
 */
export function missingToken(message = "an access token is required"): ServiceError {
  return new ServiceError("missing_token", message, { challenge: `Bearer ${realm}` });
}

/**
 * 401 for credentials that are not accepted.
 * @param reason in the answer; the code in the challenge is always `invalid_token` (RFC 6750 §3.1; RFC 8705 §3 for
 *   another certificate, RFC 9449 §7.1 for another key)
 * @param cause for the log
 */
export function refusedToken(
  reason: "invalid_token" | "expired_token" | "proof_of_possession_failed",
  message: string,
  cause?: string,
): ServiceError {
  return new ServiceError(reason, message, {
    challenge: `Bearer ${realm}, error="invalid_token", error_description="${message}"`,
    cause,
  });
}

/** 401 for an invalid DPoP proof (RFC 9449 §7.1). `cause` is for the log. */
export function refusedProof(message: string, cause?: string): ServiceError {
  return new ServiceError("proof_of_possession_failed", message, {
    challenge: `DPoP ${realm}, error="invalid_dpop_proof", error_description="${message}", ${algs}`,
    cause,
  });
}

/** 401 for a DPoP proof without the current nonce, which the answer carries (RFC 9449 §9). */
export function missingNonce(nonce: string): ServiceError {
  const message = "the DPoP proof must carry the nonce of this answer";
  return new ServiceError("proof_of_possession_failed", message, {
    challenge: `DPoP ${realm}, error="use_dpop_nonce", error_description="${message}", ${algs}`,
    dpopNonce: nonce,
  });
}

/** 403 for a caller without the scopes of a route; the challenge names all required scopes (RFC 6750 §3). */
export function insufficientScope(required: readonly string[], missing: readonly string[]): ServiceError {
  return new ServiceError("missing_scope", "the caller lacks a required scope", {
    requiredScopes: required,
    missingScopes: missing,
    challenge: `Bearer ${realm}, error="insufficient_scope", scope="${required.join(" ")}"`,
  });
}

/** Returns the same refusal with a challenge for the DPoP scheme; other thrown values unchanged. */
export function underDpop(thrown: unknown): unknown {
  return challengedBy(thrown, (given) => given.replace(/^Bearer .*/s, (bearer) => `DPoP ${bearer.slice(7)}, ${algs}`));
}

/**
 * Returns the same refusal with a challenge for another protection space than the routes under `/v1/sdk/`; other thrown
 * values unchanged.
 * @param name without `"` or `\`
 */
export function inRealm(name: string, thrown: unknown): unknown {
  return challengedBy(thrown, (given) => given.replace(realm, `realm="${name}"`));
}

function challengedBy(thrown: unknown, change: (challenge: string) => string): unknown {
  if (!(thrown instanceof ServiceError) || thrown.details.challenge === undefined) return thrown;
  const { reason, message, details } = thrown;
  return new ServiceError(reason, message, { ...details, challenge: change(thrown.details.challenge) });
}

/** 503 if the issuer does not answer, or its keys are not known. `cause` is for the log. */
export function issuerUnavailable(
  retryAfterSeconds: number,
  cause: string,
  message = "the keys of the token issuer are not available",
): ServiceError {
  return new ServiceError("issuer_unavailable", message, { retryAfterSeconds, cause });
}

/** credentials = auth-scheme [ 1*SP token68 ] (RFC 9110 §11.4, RFC 6750 §2.1, RFC 9449 §7.1) */
const credentials = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?: +([A-Za-z0-9._~+/-]+=*))?$/;

/**
 * Returns the access token of a call. Reads only the `Authorization` header: a token in the query or the body (RFC 6750
 * §2.2, §2.3) is ignored.
 * @param scheme the only accepted one: a token that is bound to a DPoP key must not come as a bearer token (RFC 9449
 *   §7.1), nor the other way round
 * @param maximumBytes longest token; a longer one is refused unread
 * @throws ServiceError `missing_token` without credentials or with another scheme; `invalid_token` if the header is
 *   there twice, malformed or too long; `proof_of_possession_failed` for a bearer token if DPoP is required
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

/** The scheme under which an authenticated call presented its token; `Bearer` without one. */
export function presentedScheme(inbound: InboundRequest): TokenScheme {
  return /^dpop /i.test(inbound.headerValues("authorization")[0] ?? "") ? "DPoP" : "Bearer";
}
