/** Converts the error envelope of the JSON routes to the error of every other protocol. */
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { codeFromString } from "@connectrpc/connect/protocol-connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import type { HttpAnswer } from "./http.ts";

interface Envelope {
  readonly service?: string;
  readonly error?: {
    readonly code?: string;
    readonly reason?: string;
    readonly message?: string;
    readonly request_id?: string;
    readonly violations?: readonly { readonly field: string; readonly rule: string; readonly message: string }[];
    readonly required_scopes?: readonly string[];
    readonly missing_scopes?: readonly string[];
    readonly retry_after_seconds?: number;
  };
}

/** Parses a refusal. An answer without an envelope comes from an intermediary. */
export function refusalOf({ status, headers, text }: HttpAnswer): ConnectError {
  const { service = "", error } = parse(text);
  const code = codeFromString(error?.code ?? "");
  if (error === undefined || code === undefined) {
    return new ConnectError(`HTTP ${status} without an answer of the platform`, codeOfStatus(status), headers);
  }
  const refusal = new ConnectError(error.message ?? "", code, headers);
  const { required_scopes, missing_scopes, retry_after_seconds, violations = [] } = error;
  refusal.details.push({
    desc: ErrorInfoSchema,
    value: create(ErrorInfoSchema, {
      reason: error.reason ?? "",
      domain: service,
      metadata: {
        ...(error.request_id !== undefined && { request_id: error.request_id }),
        ...(required_scopes !== undefined && { required_scopes: required_scopes.join(" ") }),
        ...(missing_scopes !== undefined && { missing_scopes: missing_scopes.join(" ") }),
      },
    }),
  });
  if (violations.length > 0) {
    const fieldViolations = violations.map(({ field, rule, message }) => ({
      field,
      reason: rule,
      description: message,
    }));
    refusal.details.push({ desc: BadRequestSchema, value: create(BadRequestSchema, { fieldViolations }) });
  }
  if (retry_after_seconds !== undefined) {
    const retryDelay = { seconds: BigInt(retry_after_seconds), nanos: 0 };
    refusal.details.push({ desc: RetryInfoSchema, value: create(RetryInfoSchema, { retryDelay }) });
  }
  return refusal;
}

function parse(text: string): Envelope {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Envelope) : {};
  } catch {
    return {};
  }
}

/** As gRPC maps the status of an answer that is not gRPC (grpc/doc/http-grpc-status-mapping.md). */
function codeOfStatus(status: number): Code {
  switch (status) {
    case 400:
      return Code.Internal;
    case 401:
      return Code.Unauthenticated;
    case 403:
      return Code.PermissionDenied;
    case 404:
      return Code.Unimplemented;
    case 429:
    case 502:
    case 503:
    case 504:
      return Code.Unavailable;
    default:
      return Code.Unknown;
  }
}
