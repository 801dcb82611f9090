/** gRPC and its kin by hand: frames, and the refusals that they and the JSON routes carry. */
import type { IncomingHttpHeaders } from "node:http2";
import { Code, ConnectError } from "@connectrpc/connect";
import { errorFromJson } from "@connectrpc/connect/protocol-connect";
import { findTrailerError } from "@connectrpc/connect/protocol-grpc";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";

/** A length-prefixed message; `flags` and `lengthBytes` may lie. */
export function frame(message: Uint8Array, flags = 0, lengthBytes = message.byteLength): Buffer {
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(lengthBytes, 1);
  return Buffer.concat([head, message]);
}

/** A refusal in the words of the JSON envelope, whichever protocol carried it. */
export interface WireRefusal {
  readonly code: string;
  readonly reason: string;
  readonly message: string;
  /** Paths of the broken members, in order. */
  readonly fields: readonly string[];
  readonly requiredScopes?: string | undefined;
  readonly missingScopes?: string | undefined;
  readonly requestId?: string | undefined;
  readonly retryAfterSeconds?: number | undefined;
}

/** The refusal in an answer of a JSON route. */
// biome-ignore lint/suspicious/noExplicitAny: the body as it was parsed.
export function refusalInEnvelope({ error }: any): WireRefusal {
  return {
    code: error.code,
    reason: error.reason,
    message: error.message,
    fields: (error.violations ?? []).map(({ field }: { field: string }) => field),
    requiredScopes: error.required_scopes?.join(" "),
    missingScopes: error.missing_scopes?.join(" "),
    requestId: error.request_id,
    retryAfterSeconds: error.retry_after_seconds,
  };
}

/** The refusal in an error of one of Connect's clients. */
export function refusalOf(error: ConnectError): WireRefusal {
  const [info] = error.findDetails(ErrorInfoSchema);
  const [bad] = error.findDetails(BadRequestSchema);
  const [retry] = error.findDetails(RetryInfoSchema);
  return {
    code: snakeCase(Code[error.code] ?? "none"),
    reason: info?.reason ?? "none",
    message: error.rawMessage,
    fields: bad?.fieldViolations.map(({ field }) => field) ?? [],
    requiredScopes: info?.metadata.required_scopes,
    missingScopes: info?.metadata.missing_scopes,
    requestId: info?.metadata.request_id,
    retryAfterSeconds: retry === undefined ? undefined : Number(retry.retryDelay?.seconds),
  };
}

/** The refusal in gRPC trailers; undefined where the call went well. */
export function refusalInTrailers(trailers: IncomingHttpHeaders): WireRefusal | undefined {
  const headers = new Headers();
  for (const [name, value] of Object.entries(trailers))
    if (value !== undefined && !name.startsWith(":")) headers.set(name, String(value));
  if (!headers.has("grpc-status")) throw new Error("trailers without grpc-status");
  const error = findTrailerError(headers);
  return error && refusalOf(ConnectError.from(error));
}

/** The refusal in the body of an error of Connect. */
export function refusalInConnect(text: string): WireRefusal {
  return refusalOf(errorFromJson(JSON.parse(text), undefined, new ConnectError("no error of Connect")));
}

/** The refusal in the trailers of gRPC-Web, which are the last frame of the body. */
export function refusalInWeb(body: Buffer): WireRefusal | undefined {
  let at = 0;
  // An answer may come before them.
  while (((body[at] ?? 0) & 0x80) === 0) at += 5 + body.readUInt32BE(at + 1);
  const lines = body.toString("latin1", at + 5).trim();
  return refusalInTrailers(Object.fromEntries(lines.split("\r\n").map((line) => line.split(/:\s*(.*)/s))));
}

function snakeCase(name: string): string {
  return name.replace(/(?<=[a-z])(?=[A-Z])/g, "_").toLowerCase();
}
