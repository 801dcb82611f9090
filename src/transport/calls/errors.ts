/** Renders a `ServiceError` as a Connect error with the standard `google.rpc` details, for gRPC, gRPC-Web and Connect. */
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import { type ErrorCode, type RefusalDetails, refusalHeaders, ServiceError, withoutStack } from "../../base/errors.ts";
import type { RequestId } from "../../base/ids.ts";

const connectCodes: Readonly<Record<ErrorCode, Code>> = {
  unauthenticated: Code.Unauthenticated,
  permission_denied: Code.PermissionDenied,
  invalid_argument: Code.InvalidArgument,
  already_exists: Code.AlreadyExists,
  resource_exhausted: Code.ResourceExhausted,
  not_found: Code.NotFound,
  unimplemented: Code.Unimplemented,
  deadline_exceeded: Code.DeadlineExceeded,
  canceled: Code.Canceled,
  unavailable: Code.Unavailable,
  internal: Code.Internal,
};

/**
 * Returns the refusal as a Connect error: `ErrorInfo` with the reason, the service as domain, and the scopes as
 * metadata (space separated); `BadRequest` with the violations; `RetryInfo` with the delay.
 */
export function toConnectError(service: string, requestId: RequestId, error: ServiceError): ConnectError {
  const { violations = [], requiredScopes, missingScopes, retryAfterSeconds } = error.details;
  const { message, code } = error;
  const wire = withoutStack(
    () => new ConnectError(message, connectCodes[code], refusalHeaders(error), undefined, error),
  );
  wire.details.push({
    desc: ErrorInfoSchema,
    value: create(ErrorInfoSchema, {
      reason: error.reason,
      domain: service,
      metadata: {
        request_id: requestId,
        ...(requiredScopes !== undefined && { required_scopes: requiredScopes.join(" ") }),
        ...(missingScopes !== undefined && { missing_scopes: missingScopes.join(" ") }),
      },
    }),
  });
  if (violations.length > 0) {
    wire.details.push({
      desc: BadRequestSchema,
      value: create(BadRequestSchema, {
        fieldViolations: violations.map(({ field, rule, message }) => ({ field, reason: rule, description: message })),
      }),
    });
  }
  if (retryAfterSeconds !== undefined) {
    wire.details.push({
      desc: RetryInfoSchema,
      value: create(RetryInfoSchema, { retryDelay: { seconds: BigInt(retryAfterSeconds), nanos: 0 } }),
    });
  }
  return wire;
}

/** Returns the refusal behind a thrown value. Anything else becomes `internal`, without its cause in the message. */
export function toServiceError(thrown: unknown): ServiceError {
  if (thrown instanceof ServiceError) return thrown;
  if (thrown instanceof ConnectError && thrown.cause instanceof ServiceError) return thrown.cause;
  return new ServiceError("internal", "internal error", { cause: thrown });
}

/** Refuses a message that violates its protocol. */
export function invalidMessage(rule: string, message: string, details: RefusalDetails = {}): ServiceError {
  return new ServiceError("invalid_request", message, { ...details, violations: [{ field: "", rule, message }] });
}

/** Refuses a unary call without exactly one message (https://github.com/grpc/grpc/blob/master/doc/statuscodes.md). */
export function wrongMessageCount(): ServiceError {
  return invalidMessage("cardinality", "exactly one request message is expected", { code: "unimplemented" });
}

/** Refuses a compressed message without an encoding (https://github.com/grpc/grpc/blob/master/doc/compression.md). */
export function undeclaredCompression(): ServiceError {
  return invalidMessage("compression", "a compressed message needs an encoding", { code: "internal" });
}

export function methodNotAllowed(allow: string): ServiceError {
  return new ServiceError("method_not_allowed", `method must be ${allow}`);
}
