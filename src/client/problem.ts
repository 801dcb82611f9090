import { type Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";

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
