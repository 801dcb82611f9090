import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";

/** What a refused call says, the same over every protocol. */
export interface Problem {
  /** Status of the call, such as `Code.PermissionDenied`. */
  readonly code: Code;
  /** For a person. Repeats nothing secret. */
  readonly message: string;
  /** Reason from the service's closed list, such as `missing_scope`; absent where it never answered. */
  readonly reason?: string;
  /** To be named when asking the operator. */
  readonly requestId?: string;
  /** Broken rules of the request: path of the member, rule, message. */
  readonly violations: readonly { readonly field: string; readonly rule: string; readonly message: string }[];
  readonly requiredScopes: readonly string[];
  readonly missingScopes: readonly string[];
  /** How long to wait before trying again, in milliseconds, where the service says so. */
  readonly retryAfterMs?: number;
}

/** An error of a call, with what the service says of it. Its cause is what the transport threw. */
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

  /** Whatever a call rejected with, as an error of this class. */
  static override from(error: unknown): PlatformError {
    return error instanceof PlatformError ? error : new PlatformError(ConnectError.from(error));
  }

  /** A `ConnectError` knows its instances, and those of other copies of its module, by their name. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return Object.prototype.isPrototypeOf.call(PlatformError.prototype, value as object);
  }
}

/**
 * The error of one attempt. A connection that broke, or never came about, is `unavailable`: transports say `aborted`,
 * `canceled` where nobody canceled, `internal` or `unknown` because of what Node threw; the service itself gives a reason.
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

/** Reads an error that a call rejected with. */
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
