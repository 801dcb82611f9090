/**
 * Unary calls of gRPC, gRPC-Web and Connect: how each protocol carries message, time limit, compression and answer. A
 * differential test compares them with Connect's own handlers.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { Duplex } from "node:stream";
import { createBrotliDecompress, createGunzip } from "node:zlib";
import { type Message, toJsonString } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import {
  parseTimeout as parseConnectTimeout,
  parseContentType as parseConnectType,
} from "@connectrpc/connect/protocol-connect";
import { parseTimeout as parseGrpcTimeout, parseContentType as parseGrpcType } from "@connectrpc/connect/protocol-grpc";
import { parseContentType as parseWebType, trailerFlag } from "@connectrpc/connect/protocol-grpc-web";
import type { FastifyInstance } from "fastify";
import { invalidRequest, ServiceError } from "../../base/errors.ts";
import type { InboundRequest } from "../../base/inbound-request.ts";
import { orUndefined } from "../../base/json.ts";
import { type BodyLimits, bodyTooLarge, prefixBytes } from "../../http/body.ts";
import { type Call, type Protocol, route } from "../calls/call.ts";
import { type AdapterOptions, addUnaryRoute, type CallContext, exchange, type Source } from "../calls/exchange.ts";
import type { UnaryMethod } from "../calls/methods.ts";
import { asHeaders, methodNotAllowed, protocolOf, type Written, writeGrpc, writeRefusal } from "../calls/refusals.ts";
import { requestReader } from "../codec/items.ts";
import { encodeFrame, frameEncoder, readOnly } from "../grpc/frame.ts";

/** How a request carries its message, by its headers. */
export interface Form {
  readonly protocol: Exclude<Protocol, "rest">;
  readonly isJson: boolean;
  /** Undefined if the message is not compressed. */
  readonly decompress?: Decompress | undefined;
  readonly timeoutMs?: number | undefined;
  /** The query of a GET request, which has the message. */
  readonly query?: URLSearchParams | undefined;
  /** Refusal of headers that the protocol does not allow. */
  readonly problem?: ServiceError | undefined;
}

/** Carries one call, and returns its answer or refusal. */
export type UnaryCarrier = (call: Call, source: Source, form: Form) => Promise<Written>;

export function unaryCarrier(method: UnaryMethod, options: AdapterOptions): UnaryCarrier {
  const { rpc, spec } = method;
  const { limits } = options;
  const { input, output } = spec.method;
  const maxBytes = limits.maxBodyBytes(rpc);
  const read = requestReader(input, limits.maxItemBytes(rpc));
  const toFrame = frameEncoder(output);
  const encodeJson = (message: Message) => Buffer.from(toJsonString(output, message));

  return (call, source, form) => {
    const { protocol, isJson, decompress, timeoutMs, query, problem } = form;
    const isFramed = protocol !== "connect";
    route(call, protocol, rpc);
    return exchange(method, options, call, source, {
      timeoutMs,
      problem,
      body: query !== undefined ? "none" : isFramed ? "framed" : "whole",
      async decode(body, call, bodyLimits) {
        const inflate = decompress && ((bytes: Uint8Array) => decompress(bytes, body.byteLength, bodyLimits()));
        const parse = (bytes: Uint8Array) => read(bytes, isJson ? "canonical" : "binary", call);
        if (isFramed)
          return readOnly(body, { maxBytes, inflate, ignoredFlag: protocol === "grpc_web" ? trailerFlag : 0 }, parse);
        const message = query === undefined ? body : messageIn(query);
        return parse(inflate === undefined || message.byteLength === 0 ? message : await inflate(message));
      },
      write(message, context) {
        if (isFramed) return writeFrame(form, isJson ? encodeFrame(encodeJson(message)) : toFrame(message), context);
        return writeBare(form, isJson ? encodeJson(message) : toFrame(message).subarray(prefixBytes), context);
      },
    });
  };
}

/** Serves the methods on gRPC, gRPC-Web and Connect, over HTTP/1.1 and HTTP/2. */
export function registerUnary(app: FastifyInstance, methods: readonly UnaryMethod[], options: AdapterOptions): void {
  for (const method of methods) {
    const { rpc, rpcPath, spec } = method;
    const carry = unaryCarrier(method, options);
    const isSafe = spec.method.idempotency === MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS;
    addUnaryRoute(app, app.supportedMethods, rpcPath, (call, source) => {
      const { inbound } = call;
      const protocol = protocolOf(source.headers["content-type"]);
      const allowed = isSafe && protocol === "connect" ? ["POST", "GET"] : ["POST"];
      if (allowed.includes(inbound.method)) return carry(call, source, formOf(protocol, inbound, source.headers));
      const allow = allowed.join(", ");
      return writeRefusal(options.service, route(call, protocol, rpc), methodNotAllowed(allow), { headers: { allow } });
    });
  }
}

/** Headers that distinguish the protocols of requests. */
const protocols = {
  connect: {
    typeOf: (type: string | null) => {
      const parsed = parseConnectType(type);
      return parsed?.stream === true ? undefined : parsed;
    },
    timeoutHeader: "connect-timeout-ms",
    parseTimeout: parseConnectTimeout,
    encodingHeader: "content-encoding",
  },
  grpc: {
    typeOf: parseGrpcType,
    timeoutHeader: "grpc-timeout",
    parseTimeout: parseGrpcTimeout,
    encodingHeader: "grpc-encoding",
  },
  grpc_web: {
    typeOf: (type: string | null) => {
      const parsed = parseWebType(type);
      return parsed?.text === true ? undefined : parsed;
    },
    timeoutHeader: "grpc-timeout",
    parseTimeout: parseGrpcTimeout,
    encodingHeader: "grpc-encoding",
  },
} as const;

const queryTypes = new Map([
  ["proto", { binary: true }],
  ["json", { binary: false }],
]);

export function formOf(
  protocol: Form["protocol"],
  { method, url }: InboundRequest,
  headers: IncomingHttpHeaders,
): Form {
  const { typeOf, encodingHeader } = protocols[protocol];
  const query = method === "GET" ? new URLSearchParams(/\?(.*)/s.exec(url)?.[1]) : undefined;
  const type =
    query === undefined ? typeOf(headers["content-type"] ?? null) : queryTypes.get(query.get("encoding") ?? "");
  const encoding = (query === undefined ? textOf(headers[encodingHeader]) : query.get("compression")) ?? "identity";
  const decompress = decompressors.get(encoding);
  const form = { ...timeoutOf(protocol, headers), protocol, isJson: type?.binary === false, decompress, query };
  if (type === undefined)
    return {
      ...form,
      problem: new ServiceError("unsupported_media_type", "content type is not supported by this method"),
    };
  if (decompress === undefined && encoding !== "identity")
    return {
      ...form,
      problem: new ServiceError("unsupported_encoding", "message encoding is not supported", { acceptedEncodings }),
    };
  return form;
}

/** Returns the caller's time limit, or the refusal of a malformed one. */
export function timeoutOf(
  protocol: Form["protocol"],
  headers: IncomingHttpHeaders,
): Pick<Form, "timeoutMs" | "problem"> {
  const { timeoutHeader, parseTimeout } = protocols[protocol];
  const { timeoutMs, error } = parseTimeout(textOf(headers[timeoutHeader]) ?? null, Number.MAX_SAFE_INTEGER);
  if (error === undefined) return { timeoutMs };
  return { timeoutMs, problem: invalidRequest("", "timeout", "the timeout header is malformed") };
}

function textOf(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(", ") : value;
}

/** Returns the message of a GET request (https://connectrpc.com/docs/protocol#unary-get-request). */
function messageIn(query: URLSearchParams): Uint8Array {
  const text = query.get("message") ?? "";
  if (query.get("base64") !== "1") return Buffer.from(text, "utf8");
  const message = orUndefined(() => base64Decode(text));
  if (message !== undefined) return message;
  throw invalidRequest("", "base64", "message is not base64");
}

function writeFrame({ protocol, isJson }: Form, frame: Uint8Array, context: CallContext): Written {
  const { answerHeaders: headers, answerTrailers: trailers } = context;
  const ended = { ...trailers, "grpc-status": "0" };
  return writeGrpc(protocol === "grpc" ? protocol : "grpc_web", isJson ? "json" : "proto", headers, frame, ended);
}

function writeBare({ isJson }: Form, body: Uint8Array, context: CallContext): Written {
  const own = {
    "content-type": `application/${isJson ? "json" : "proto"}`,
    "content-length": String(body.byteLength),
  };
  const headers = { ...own, ...context.answerHeaders, ...asHeaders(context.answerTrailers) };
  return { status: 200, headers, body };
}

// Decompression of request messages, in pieces: a few bytes may expand a thousandfold. Answers are never compressed.

const pieceBytes = 64 * 1024;

/** @param heldBytes bytes that the lease already holds for the body */
export type Decompress = (
  bytes: Uint8Array,
  heldBytes: number,
  limits: Pick<BodyLimits, "maxBytes" | "lease">,
) => Promise<Buffer>;

export const decompressors: ReadonlyMap<string, Decompress> = new Map([
  ["gzip", through(() => createGunzip({ chunkSize: pieceBytes }))],
  ["br", through(() => createBrotliDecompress({ chunkSize: pieceBytes }))],
]);

/** Value of the header that lists them. */
const acceptedEncodings = [...decompressors.keys()].join(",");

/** Throws `body_too_large`, `overloaded`, or `invalid_request` if the bytes are not of the encoding. */
function through(create: () => Duplex): Decompress {
  return async (bytes, heldBytes, { maxBytes, lease }) => {
    if (bytes.byteLength === 0) return Buffer.alloc(0);
    const stream = create();
    const parts: Buffer[] = [];
    let sizeBytes = 0;
    try {
      stream.end(bytes);
      for await (const part of stream as AsyncIterable<Buffer>) {
        sizeBytes += part.byteLength;
        if (sizeBytes > maxBytes) throw bodyTooLarge();
        lease.holds(heldBytes + sizeBytes);
        parts.push(part);
      }
    } catch (error) {
      throw error instanceof ServiceError ? error : invalidRequest("", "decode", "message could not be decoded");
    } finally {
      stream.destroy();
    }
    return Buffer.concat(parts);
  };
}
