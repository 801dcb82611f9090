/**
 * Refusals of credentials, each with its `WWW-Authenticate` challenge (RFC 6750 §3). Messages are constants of this
 * folder: what a caller sent never comes back to it.
 */
import { ServiceError } from "../base/errors.ts";

/** The protection space (RFC 9110 §11.5): the routes under `/v1/sdk/`. */
const realm = 'realm="sdk"';

/** 401 for a call without credentials. RFC 6750 §3.1: no error code, since nothing was presented. */
export function missingToken(): ServiceError {
  return new ServiceError("missing_token", "a bearer access token is required", { challenge: `Bearer ${realm}` });
}

/**
 * 401 for credentials that do not stand.
 * @param reason what the caller is told apart from the challenge, whose code is `invalid_token` for all of them
 *   (RFC 6750 §3.1; RFC 8705 §3 for a certificate that is not the bound one)
 * @param message constant text without `"` or `\`
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

/** 403 for a caller without the scopes of a route; the challenge names all that are needed (RFC 6750 §3). */
export function insufficientScope(required: readonly string[], missing: readonly string[]): ServiceError {
  return new ServiceError("missing_scope", "the access token lacks a required scope", {
    requiredScopes: required,
    missingScopes: missing,
    challenge: `Bearer ${realm}, error="insufficient_scope", scope="${required.join(" ")}"`,
  });
}

/** 503 while the issuer's keys are not known. `cause` is for the log. */
export function issuerUnavailable(retryAfterSeconds: number, cause: string): ServiceError {
  return new ServiceError("issuer_unavailable", "the keys of the token issuer are not available", {
    retryAfterSeconds,
    cause,
  });
}
