import type { RequestId } from "./ids.ts";

/**
 * The closed list of refusals. A reason determines an error code (a Connect code in snake_case) and an HTTP status on
 * the JSON routes. gRPC and Connect derive their status from the code; a refusal may override it if their rules require
 * another.
 */
const table = {
  missing_token: { code: "unauthenticated", httpStatus: 401 },
  invalid_token: { code: "unauthenticated", httpStatus: 401 },
  expired_token: { code: "unauthenticated", httpStatus: 401 },
  proof_of_possession_failed: { code: "unauthenticated", httpStatus: 401 },
  invalid_client: { code: "unauthenticated", httpStatus: 401 },
  tenant_mismatch: { code: "permission_denied", httpStatus: 403 },
  missing_scope: { code: "permission_denied", httpStatus: 403 },
  invalid_request: { code: "invalid_argument", httpStatus: 400 },
  idempotency_conflict: { code: "already_exists", httpStatus: 409 },
  body_too_large: { code: "resource_exhausted", httpStatus: 413 },
  unsupported_media_type: { code: "invalid_argument", httpStatus: 415 },
  unsupported_encoding: { code: "unimplemented", httpStatus: 415 },
  no_route: { code: "not_found", httpStatus: 404 },
  method_not_allowed: { code: "unimplemented", httpStatus: 405 },
  request_timeout: { code: "deadline_exceeded", httpStatus: 408 },
  deadline_exceeded: { code: "deadline_exceeded", httpStatus: 504 },
  canceled: { code: "canceled", httpStatus: 499 },
  rate_limited: { code: "resource_exhausted", httpStatus: 429 },
  overloaded: { code: "unavailable", httpStatus: 503 },
  store_unavailable: { code: "unavailable", httpStatus: 503 },
  policy_unavailable: { code: "unavailable", httpStatus: 503 },
  issuer_unavailable: { code: "unavailable", httpStatus: 503 },
  internal: { code: "internal", httpStatus: 500 },
} as const;

export type Reason = keyof typeof table;
export type ErrorCode = (typeof table)[Reason]["code"];

export const reasons: Readonly<Record<Reason, { readonly code: ErrorCode; readonly httpStatus: number }>> = table;

/** One broken rule of a request. Never carries the offending value. */
export interface Violation {
  /** Path of the member, such as `workload.application` or `attributes[3].value`; empty for the whole body. */
  readonly field: string;
  /** Name of the rule, such as `string.min_len` or `json.unknown_field`. */
  readonly rule: string;
  readonly message: string;
}

/** Most violations in one answer, so that it stays readable and fits into HTTP/2 trailers. */
export const maxViolations = 32;

export interface RefusalDetails {
  /** Overrides the reason's code if a protocol requires another. */
  readonly code?: ErrorCode;
  readonly violations?: readonly Violation[];
  readonly requiredScopes?: readonly string[];
  readonly missingScopes?: readonly string[];
  /** Whole seconds, at least 1. */
  readonly retryAfterSeconds?: number;
  /** Value of `WWW-Authenticate` (RFC 6750 §3, RFC 9449 §7.1). */
  readonly challenge?: string;
  /** Value of `DPoP-Nonce` (RFC 9449 §9). */
  readonly dpopNonce?: string;
  /** Encodings of messages that the method accepts, as a header lists them. */
  readonly acceptedEncodings?: string;
  /** Kept for the log, never sent. */
  readonly cause?: unknown;
}

/** A refusal. Its message is sent to the caller and never repeats a token, secret, header value, label or attribute. */
export class ServiceError extends Error {
  override readonly name = "ServiceError";
  readonly reason: Reason;
  readonly details: RefusalDetails;

  /** Captures a stack only for `internal`: for other reasons it is useless, and costs more than the refusal. */
  constructor(reason: Reason, message: string, details: RefusalDetails = {}) {
    const { stackTraceLimit } = Error;
    if (reason !== "internal") Error.stackTraceLimit = 0;
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    Error.stackTraceLimit = stackTraceLimit;
    this.reason = reason;
    this.details = details;
  }

  get code(): ErrorCode {
    return this.details.code ?? reasons[this.reason].code;
  }

  get httpStatus(): number {
    return reasons[this.reason].httpStatus;
  }
}

export function withoutStack<T>(make: () => T): T {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return make();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/**
 * A 400 for broken rules: the message describes the first and counts the others, the answer lists at most
 * `maxViolations`. Without violations the message is general.
 */
export function invalidRequests(violations: readonly Violation[], cause?: unknown): ServiceError {
  const [first] = violations;
  const where = first === undefined || first.field === "" ? "" : `${first.field}: `;
  const others = otherProblems(violations.length - 1);
  return new ServiceError("invalid_request", `${where}${first?.message ?? "the request is invalid"}${others}`, {
    violations: violations.slice(0, maxViolations),
    cause,
  });
}

function otherProblems(count: number): string {
  if (count < 1) return "";
  // Violations are only collected up to the limit: there may be more.
  if (count >= maxViolations - 1) return ` (and at least ${maxViolations - 1} more problems)`;
  return ` (and ${count} more problem${count === 1 ? "" : "s"})`;
}

/** A 400 for one member; for the whole body or headers if the field is empty. */
export function invalidRequest(
  field: string,
  rule: string,
  message: string,
  details: RefusalDetails = {},
): ServiceError {
  return new ServiceError("invalid_request", message, { ...details, violations: [{ field, rule, message }] });
}

/** A 503 for a store that cannot be used now, or a log that must not be continued. The cause is for the log only. */
export function storeUnavailable(message: string, cause?: unknown): ServiceError {
  return new ServiceError("store_unavailable", message, { retryAfterSeconds: 1, cause });
}

/** A 503 for excess load: nothing was done. */
export function overloaded(message = "too much at once: try again later"): ServiceError {
  return new ServiceError("overloaded", message, { retryAfterSeconds: 1 });
}

// A refusal over HTTP: its body and headers, on the JSON routes and on the operator listener.

/** Body of a refusal. Members without a value are left out. */
export function toEnvelope(service: string, requestId: RequestId, error: ServiceError) {
  const { violations, requiredScopes, missingScopes, retryAfterSeconds } = error.details;
  return {
    service,
    status: "error",
    error: {
      code: error.code,
      reason: error.reason,
      message: error.message,
      request_id: requestId,
      ...(violations !== undefined && { violations }),
      ...(requiredScopes !== undefined && { required_scopes: requiredScopes }),
      ...(missingScopes !== undefined && { missing_scopes: missingScopes }),
      ...(retryAfterSeconds !== undefined && { retry_after_seconds: retryAfterSeconds }),
    },
  };
}

/** Response headers that a refusal sets: `WWW-Authenticate`, `DPoP-Nonce`, and `Retry-After` in whole seconds. */
export function refusalHeaders(error: ServiceError): Record<string, string> {
  const { challenge, dpopNonce, retryAfterSeconds } = error.details;
  return {
    ...(challenge !== undefined && { "www-authenticate": challenge }),
    ...(dpopNonce !== undefined && { "dpop-nonce": dpopNonce }),
    ...(retryAfterSeconds !== undefined && { "retry-after": String(retryAfterSeconds) }),
  };
}

/** The message for an operator: that of a refusal is for callers, and leaves out the cause. */
export function messageWithCause(thrown: unknown): string {
  const message = messageOf(thrown);
  if (!(thrown instanceof ServiceError) || thrown.cause === undefined) return message;
  return `${message.replace(/\.$/, "")}: ${messageOf(thrown.cause)}`;
}

/** The message of what was thrown, which may be any value. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
