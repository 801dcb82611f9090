/** Refusals in the caller's protocol: the JSON envelope, a Connect error, or a status in trailers. */
import { create } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { encodeEnvelope } from "@connectrpc/connect/protocol";
import {
  codeFromString,
  codeToHttpStatus,
  endStreamFlag,
  endStreamToJson,
  errorToJsonBytes,
} from "@connectrpc/connect/protocol-connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { trailerFlag, trailerSerialize } from "@connectrpc/connect/protocol-grpc-web";
import type { FastifyReply, FastifyRequest } from "fastify";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import {
  invalidRequest,
  type Reason,
  refusalHeaders,
  ServiceError,
  toEnvelope,
  withoutStack,
} from "../../base/errors.ts";
import type { RequestId } from "../../base/ids.ts";
import type { InboundRequest } from "../../base/inbound-request.ts";
import { pathOf } from "../../http/inbound-request.ts";
import { answerHeaders, type Call, type Protocol } from "./call.ts";

/** `/package.Service/Method` */
const rpcPath = /^\/[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\/[A-Za-z_]\w*$/;
/** Paths of the JSON routes. Their refusals are the envelope for any content type. */
const restPrefix = "/v1/";

/** Returns the protocol that a content type names. Types are compared without case, as the plugin does. */
export function protocolOf(contentType: string | null | undefined): Exclude<Protocol, "rest"> {
  const [, web] = /^application\/grpc(-web(?:-text)?)?(?:[+;\s]|$)/i.exec(contentType ?? "") ?? [undefined, "none"];
  if (web === "none") return "connect";
  return web === undefined ? "grpc" : "grpc_web";
}

/** Whether a request is for an RPC path, or claims to be gRPC and is not for a JSON route. */
export function isRpcRequest(inbound: InboundRequest): boolean {
  const path = pathOf(inbound.url);
  if (rpcPath.test(path)) return true;
  return path.startsWith("/") && !path.startsWith(restPrefix) && protocolOf(contentTypeOf(inbound)) !== "connect";
}

function contentTypeOf(inbound: InboundRequest): string {
  return inbound.headerValues("content-type")[0] ?? "";
}

/** A complete answer. A body of text has one character for each byte. */
export interface Written<Body extends Uint8Array | string = Uint8Array> {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Body;
  readonly trailers?: Readonly<Record<string, string>>;
}

/** Exceptions to what the reason alone decides. */
export interface RefusedWith {
  readonly headers?: Readonly<Record<string, string>>;
  readonly trailers?: Headers;
  /** HTTP status of the envelope and on Connect, if it is not the one of the reason. */
  readonly status?: number;
}

/** Sends a refusal as `writeRefusal` writes it. */
export function sendRefusal(
  service: string,
  refusal: ServiceError,
  request: FastifyRequest,
  reply: FastifyReply,
  refusedWith?: RefusedWith,
): void {
  sendWritten(writeRefusal(service, request.call, refusal, refusedWith), request, reply);
}

/** Sends an answer or refusal, with the headers of every answer. */
export function sendWritten(
  { status, headers, body, trailers }: Written<Uint8Array | string>,
  { call }: FastifyRequest,
  reply: FastifyReply,
): void {
  const { raw } = reply;
  if (!reply.sent) reply.hijack();
  // The caller may have left.
  if (raw.destroyed || raw.headersSent) return;
  raw.writeHead(status, { ...answerHeaders(call), ...call.announced, ...headers });
  if (trailers !== undefined) raw.addTrailers(trailers);
  // Headers and body are sent together all the same. Node would join a text with the headers, and copy it for that.
  raw.cork();
  raw.flushHeaders();
  raw.end(body.length > 0 ? body : null, "latin1");
}

/**
 * Writes a refusal in the protocol of the call, and notes both on the call. Before its route is known, `isRpcRequest`
 * decides between the protocol that the content type names and the JSON envelope.
 */
export function writeRefusal(
  service: string,
  call: Call,
  refusal: ServiceError,
  refusedWith: RefusedWith = {},
): Written {
  call.refusal = refusal;
  const isRpc = call.protocol === undefined ? isRpcRequest(call.inbound) : call.protocol !== "rest";
  return (isRpc ? writeRpcRefusal : writeEnvelope)(service, call, refusal, refusedWith);
}

function writeRpcRefusal(
  service: string,
  call: Call,
  refusal: ServiceError,
  { headers = {}, trailers = new Headers(), status }: RefusedWith,
): Written {
  const contentType = contentTypeOf(call.inbound);
  const protocol = protocolOf(contentType);
  call.protocol = protocol;
  const error = toConnectError(service, call.requestId, refusal);
  const { acceptedEncodings } = refusal.details;
  if (acceptedEncodings !== undefined)
    error.metadata.set(protocol === "connect" ? "accept-encoding" : "grpc-accept-encoding", acceptedEncodings);
  const codec = /json/i.test(contentType) ? "json" : "proto";
  if (protocol === "connect") {
    if (/^application\/connect\+(?:proto|json)\b/i.test(contentType)) return endOfStream(error, codec, headers);
    const body = errorToJsonBytes(error, undefined);
    const own = { "content-type": "application/json", "content-length": String(body.byteLength) };
    const ofTrailers = asHeaders(Object.fromEntries(trailers));
    return {
      status: status ?? (ofHttp.has(refusal.reason) ? refusal.httpStatus : codeToHttpStatus(error.code)),
      headers: { ...own, ...Object.fromEntries(error.metadata), ...headers, ...ofTrailers },
      body,
    };
  }
  const ofGrpc = Object.fromEntries(setTrailerStatus(trailers, error));
  const written = writeGrpc(protocol, codec, headers, new Uint8Array(), ofGrpc);
  if (!/^application\/grpc-web-text/i.test(contentType)) return written;
  return {
    ...written,
    headers: { ...written.headers, "content-type": `application/grpc-web-text+${codec}` },
    body: Buffer.from(Buffer.from(written.body).toString("base64"), "latin1"),
  };
}

/** Writes an answer of gRPC or gRPC-Web, which has the trailers in a last frame. */
export function writeGrpc(
  protocol: "grpc" | "grpc_web",
  codec: string,
  headers: Written["headers"],
  frames: Uint8Array,
  trailers: NonNullable<Written["trailers"]>,
): Written {
  const type = protocol === "grpc" ? "application/grpc" : "application/grpc-web";
  const written = { status: 200, headers: { "content-type": `${type}+${codec}`, ...headers } };
  if (protocol === "grpc") return { ...written, body: frames, trailers };
  const last = encodeEnvelope(trailerFlag, trailerSerialize(new Headers(trailers)));
  return { ...written, body: Buffer.concat([frames, last]) };
}

/** Unary Connect has trailers among its headers (https://connectrpc.com/docs/protocol#unary-response). */
export function asHeaders(trailers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(trailers).map(([name, value]) => [`trailer-${name}`, value]));
}

/** Connect streams are answered with 200 and carry the error in their last message. */
function endOfStream(error: ConnectError, codec: string, headers: Written["headers"]): Written {
  const end = endStreamToJson(new Headers(), error, undefined);
  const body = encodeEnvelope(endStreamFlag, new TextEncoder().encode(JSON.stringify(end)));
  return { status: 200, headers: { "content-type": `application/connect+${codec}`, ...headers }, body };
}

/** Reasons with an HTTP status: Connect clients read the error, intermediaries the status. */
const ofHttp: ReadonlySet<Reason> = new Set(["no_route", "method_not_allowed", "unsupported_media_type"]);

function writeEnvelope(
  service: string,
  call: Call,
  refusal: ServiceError,
  { headers, status = refusal.httpStatus }: RefusedWith,
): Written {
  call.protocol = "rest";
  const body = Buffer.from(JSON.stringify(toEnvelope(service, call.requestId, refusal)), "utf8");
  const own = { "content-type": "application/json", "content-length": String(body.byteLength) };
  return { status, headers: { ...refusalHeaders(refusal), ...own, ...headers }, body };
}

// A refusal as a Connect error, and thrown values as refusals.

/**
 * Returns the refusal as a Connect error: `ErrorInfo` with the reason, the service as domain, and the scopes as
 * metadata (space separated); `BadRequest` with the violations; `RetryInfo` with the delay.
 */
export function toConnectError(service: string, requestId: RequestId, error: ServiceError): ConnectError {
  const { violations = [], requiredScopes, missingScopes, retryAfterSeconds } = error.details;
  const { message, code } = error;
  const wire = withoutStack(
    () => new ConnectError(message, codeFromString(code), refusalHeaders(error), undefined, error),
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

/** Refuses a unary call without exactly one message (https://github.com/grpc/grpc/blob/master/doc/statuscodes.md). */
export function wrongMessageCount(): ServiceError {
  return invalidRequest("", "cardinality", "exactly one request message is expected", { code: "unimplemented" });
}

/** Refuses a compressed message without an encoding (https://github.com/grpc/grpc/blob/master/doc/compression.md). */
export function undeclaredCompression(): ServiceError {
  return invalidRequest("", "compression", "a compressed message needs an encoding", { code: "internal" });
}

export function methodNotAllowed(allow: string): ServiceError {
  return new ServiceError("method_not_allowed", `method must be ${allow}`);
}
