/**
 * Refusals of credentials, each with its `WWW-Authenticate` challenge (RFC 6750 §3, RFC 9449 §7.1). Messages are
 * constants of this folder, without `"` or `\`: what a caller sent never comes back to it.
 */
import { ServiceError } from "../base/errors.ts";
import type { InboundRequest } from "./inbound-request.ts";

/** Authentication scheme of an access token. */
export type TokenScheme = "Bearer" | "DPoP";

/**
 * Signature algorithms that are accepted, of access tokens and of DPoP proofs: asymmetric ones only, so that a public
 * key can never pass for a secret, and named one by one, so that a new version of a library adds none. RSA keys have
 * at least 2048 bits (RFC 7518 §3.3).
 */
export const signatureAlgorithms = [
  ...["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
  ...["ES256", "ES384", "ES512", "EdDSA", "Ed25519"],
];

/** The protection space (RFC 9110 §11.5): the routes under `/v1/sdk/`. */
const realm = 'realm="sdk"';
/** What a proof may be signed with (RFC 9449 §7.1). */
const algs = `algs="${signatureAlgorithms.join(" ")}"`;

/** 401 for a call without credentials. RFC 6750 §3.1: no error code, since nothing was presented. */
export function missingToken(): ServiceError {
  return new ServiceError("missing_token", "an access token is required", { challenge: `Bearer ${realm}` });
}

/** 401 for a call without identity headers that count. HTTP asks for a challenge on every 401 (RFC 9110 §15.5.2). */
export function missingIdentity(): ServiceError {
  return new ServiceError("missing_token", "identity headers of the trusted ingress are required", {
    challenge: `Bearer ${realm}`,
  });
}

/**
 * 401 for credentials that do not stand.
 * @param reason what the caller is told apart from the challenge, whose code is `invalid_token` for all of them
 *   (RFC 6750 §3.1; RFC 8705 §3 for a certificate that is not the bound one, RFC 9449 §7.1 for a key that is not)
 * @param cause for the log
 */
export function refusedToken(
  reason: "invalid_token" | "expired_token" | "proof_of_possession_failed",
  message: string,
  cause?: string,
): ServiceError {
  return new ServiceError(reason, message, {
    challenge: `Bearer ${realm}, error="invalid_token", error_description="${message}"`,
    ...(cause === undefined ? {} : { cause }),
  });
}

/** 401 for a DPoP proof that does not stand (RFC 9449 §7.1). `cause` is for the log. */
export function refusedProof(message: string, cause?: string): ServiceError {
  return new ServiceError("proof_of_possession_failed", message, {
    challenge: `DPoP ${realm}, error="invalid_dpop_proof", error_description="${message}", ${algs}`,
    ...(cause === undefined ? {} : { cause }),
  });
}

/** 401 for a DPoP proof without the nonce that is asked for now, which the answer carries (RFC 9449 §9). */
export function missingNonce(nonce: string): ServiceError {
  const message = "the DPoP proof must carry the nonce of this answer";
  return new ServiceError("proof_of_possession_failed", message, {
    challenge: `DPoP ${realm}, error="use_dpop_nonce", error_description="${message}", ${algs}`,
    dpopNonce: nonce,
  });
}

/** 403 for a caller without the scopes of a route; the challenge names all that are needed (RFC 6750 §3). */
export function insufficientScope(required: readonly string[], missing: readonly string[]): ServiceError {
  return new ServiceError("missing_scope", "the caller lacks a required scope", {
    requiredScopes: required,
    missingScopes: missing,
    challenge: `Bearer ${realm}, error="insufficient_scope", scope="${required.join(" ")}"`,
  });
}

/** The same refusal, its challenge for the DPoP scheme; whatever else was thrown, as it is. */
export function underDpop(thrown: unknown): unknown {
  if (!(thrown instanceof ServiceError)) return thrown;
  const { reason, message, details } = thrown;
  if (!details.challenge?.startsWith("Bearer ")) return thrown;
  const challenge = `DPoP ${details.challenge.slice("Bearer ".length)}, ${algs}`;
  return new ServiceError(reason, message, { ...details, challenge });
}

/**
 * The same refusal, its challenge for another protection space than the routes under `/v1/sdk/`; whatever else was
 * thrown, as it is.
 * @param name without `"` or `\`
 */
export function inRealm(name: string, thrown: unknown): unknown {
  if (!(thrown instanceof ServiceError)) return thrown;
  const { reason, message, details } = thrown;
  if (details.challenge === undefined) return thrown;
  const challenge = details.challenge.replace(realm, `realm="${name}"`);
  return new ServiceError(reason, message, { ...details, challenge });
}

/** 503 where the issuer has to be asked and does not answer. `cause` is for the log. */
export function issuerSilent(retryAfterSeconds: number, cause: string): ServiceError {
  return new ServiceError("issuer_unavailable", "the token issuer does not answer", { retryAfterSeconds, cause });
}

/** 503 while the issuer's keys are not known. `cause` is for the log. */
export function issuerUnavailable(retryAfterSeconds: number, cause: string): ServiceError {
  return new ServiceError("issuer_unavailable", "the keys of the token issuer are not available", {
    retryAfterSeconds,
    cause,
  });
}

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
