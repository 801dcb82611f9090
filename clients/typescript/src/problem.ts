import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";

/** Content of a refusal, the same over every protocol. */
export interface Problem {
  /** Status of the call, such as `Code.PermissionDenied`. */
  readonly code: Code;
  /** For people. Holds no secret. */
  readonly message: string;
  /** Reason from the service's closed list, such as `missing_scope`; absent without an answer of the service. */
  readonly reason?: string;
  /** Give this to the operator. */
  readonly requestId?: string;
  /** Broken rules of the request: path of the member, rule, message. */
  readonly violations: readonly { readonly field: string; readonly rule: string; readonly message: string }[];
  readonly requiredScopes: readonly string[];
  readonly missingScopes: readonly string[];
  /** Requested pause before a retry, in milliseconds. */
  readonly retryAfterMs?: number;
}

/** An error of a call with the service's details. Its cause is the transport's error. */
export class PlatformError extends ConnectError implements Problem {
  readonly reason?: string;
  readonly requestId?: string;
  readonly violations: Problem["violations"];
  readonly requiredScopes: readonly string[];
  readonly missingScopes: readonly string[];
  readonly retryAfterMs?: number;

  private constructor(error: ConnectError) {
    const { code, rawMessage, metadata, details } = error;
    super(rawMessage, code, metadata, undefined, error);
    this.details = details;
    const { reason, requestId, violations, requiredScopes, missingScopes, retryAfterMs } = problemOf(error);
    if (reason !== undefined) this.reason = reason;
    if (requestId !== undefined) this.requestId = requestId;
    if (retryAfterMs !== undefined) this.retryAfterMs = retryAfterMs;
    this.violations = violations;
    this.requiredScopes = requiredScopes;
    this.missingScopes = missingScopes;
  }

  /** Converts a rejection to this class. */
  static override from(error: unknown): PlatformError {
    return error instanceof PlatformError ? error : new PlatformError(ConnectError.from(error));
  }

  /** A `ConnectError` recognizes its instances, also those of other copies of its module, by their name. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return Object.prototype.isPrototypeOf.call(PlatformError.prototype, value as object);
  }
}

/**
 * The error of one attempt. A broken or failed connection is `unavailable`: transports report `aborted`, `canceled`
 * without a cancellation, `internal` or `unknown` for errors of Node, while the service gives a reason.
 */
export function attemptError(thrown: unknown, signal: AbortSignal): ConnectError {
  const error = ConnectError.from(thrown);
  const { code, cause, rawMessage, metadata } = error;
  const isThrownByNode = cause instanceof Error && typeof (cause as { code?: unknown }).code === "string";
  const isCut =
    code === Code.Aborted ||
    (code === Code.Canceled && !signal.aborted) ||
    ((code === Code.Internal || code === Code.Unknown) && isThrownByNode && !(cause instanceof ConnectError));
  if (!isCut || error.findDetails(ErrorInfoSchema).length > 0) return error;
  return new ConnectError(rawMessage, Code.Unavailable, metadata, undefined, error);
}

/** Reads the error of a call. */
export function problemOf(error: unknown): Problem {
  const wire = ConnectError.from(error);
  const info = wire.findDetails(ErrorInfoSchema)[0];
  const requestId = info?.metadata.request_id;
  const retryAfterMs = retryDelayOf(wire);
  return {
    code: wire.code,
    message: wire.rawMessage,
    ...(info !== undefined && { reason: info.reason }),
    ...(requestId !== undefined && { requestId }),
    violations: wire
      .findDetails(BadRequestSchema)
      .flatMap(({ fieldViolations }) => fieldViolations)
      .map(({ field, reason, description }) => ({ field, rule: reason, message: description })),
    requiredScopes: words(info?.metadata.required_scopes),
    missingScopes: words(info?.metadata.missing_scopes),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  };
}

/** `google.rpc.RetryInfo`, else `Retry-After` in whole seconds (RFC 9110 §10.2.3), as milliseconds. */
function retryDelayOf(error: ConnectError): number | undefined {
  const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  if (delay !== undefined) return Number(delay.seconds) * 1000 + delay.nanos / 1e6;
  const header = error.metadata.get("retry-after");
  return header !== null && /^\d{1,9}$/.test(header) ? Number(header) * 1000 : undefined;
}

function words(text: string | undefined): string[] {
  return text === undefined || text === "" ? [] : text.split(" ");
}
