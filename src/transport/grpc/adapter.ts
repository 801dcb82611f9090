/**
 * Plain unary gRPC: HTTP/2, protobuf, no compression, one message. It goes straight to the unary seam and answers as
 * the stock plugin does, several times faster; everything else is the stock plugin's. A differential test compares
 * the two.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerResponse } from "node:http2";
import { fromBinary, type Message } from "@bufbuild/protobuf";
import { parseTimeout, setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { ServiceError } from "../../base/errors.ts";
import { invalidRequest } from "../../base/errors.ts";
import { readBody } from "../body.ts";
import { createCallContext } from "../context.ts";
import { startDeadline } from "../deadline.ts";
import { toConnectError, toServiceError } from "../errors.ts";
import {
  type AdapterOptions,
  answeredByHook,
  continueIfExpected,
  declaredBytes,
  route,
  whenCallerGone,
} from "../exchange.ts";
import type { ServedMethod } from "../methods.ts";
import { invokeUnary } from "../seam.ts";
import { frameEncoder } from "./encode.ts";
import { decodeOnly, frameHeaderBytes } from "./frame.ts";

/** Whether a request is one that this adapter serves, from its headers alone. */
export function isPlainUnaryGrpc({ httpVersionMajor, method, headers }: IncomingMessage): boolean {
  if (httpVersionMajor !== 2 || method !== "POST") return false;
  const type = headers["content-type"];
  if (type !== "application/grpc" && type !== "application/grpc+proto") return false;
  const encoding = headers["grpc-encoding"];
  return encoding === undefined || encoding === "identity";
}

/** Name of the routing constraint that keeps these routes apart from the stock plugin's on the same path. */
export const plainGrpcConstraint = { wire: "plain-grpc" } as const;

/** Adds the routes of the methods. They match only requests that `isPlainUnaryGrpc` accepts. */
export function registerGrpc(app: FastifyInstance, methods: readonly ServedMethod[], options: AdapterOptions): void {
  for (const method of methods) {
    const encode = frameEncoder(method.spec.method.output);
    app.route({
      method: "POST",
      url: method.rpcPath,
      constraints: plainGrpcConstraint,
      // A hook, so that fastify does not look at the content type: credentials come before it.
      onRequest: (request, reply) => {
        reply.hijack();
        void handle(method, encode, options, request, reply);
      },
      handler: answeredByHook,
    });
  }
}

async function handle(
  method: ServedMethod,
  encode: (message: Message) => Buffer,
  options: AdapterOptions,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const { raw, edge } = request;
  const { limits } = options;
  const call = route(request, "grpc", method.rpc);
  const timeout = parseTimeout(raw.headers["grpc-timeout"]?.toString() ?? null, Number.MAX_SAFE_INTEGER);
  const deadline = startDeadline(timeout.timeoutMs, limits.maxDeadlineMs);
  whenCallerGone(reply.raw, deadline.cancel);
  const context = createCallContext({
    spec: method.spec,
    call,
    deadline,
    protocolName: "grpc",
    requestMethod: edge.method,
    url: edge.url,
    rawHeaders: raw.rawHeaders,
  });
  let answer: Buffer | undefined;
  try {
    await options.gate({ call, edge, rpc: method.rpc, signal: deadline.signal });
    if (timeout.error !== undefined) throw invalidRequest("", "timeout", "the timeout header is malformed");
    continueIfExpected(raw, reply.raw);
    const maxBytes = limits.maxBodyBytes(method.rpc);
    const bodyLimits = { maxBytes: maxBytes + frameHeaderBytes, timeoutMs: limits.bodyTimeoutMs };
    const body = await readBody(raw, declaredBytes(raw), bodyLimits, deadline.signal);
    const message = decodeOnly(body, maxBytes, (bytes) => decode(method, bytes));
    const output = await invokeUnary(method.spec, context, message, options.interceptors);
    answer = encode(output);
  } catch (thrown) {
    call.refusal = toServiceError(thrown);
  }
  deadline.end();
  respond(reply, context.responseHeader, context.responseTrailer, answer, options.service, request);
}

function decode(method: ServedMethod, message: Uint8Array): Message {
  try {
    return fromBinary(method.spec.method.input, message);
  } catch {
    throw invalidRequest("", "protobuf", "message is not valid protobuf");
  }
}

function respond(
  reply: FastifyReply,
  header: Headers,
  trailer: Headers,
  answer: Buffer | undefined,
  service: string,
  { call }: FastifyRequest,
): void {
  // The compatibility API of HTTP/2 has `addTrailers`, `writeHead` and `end` as HTTP/1.1 does.
  const response = reply.raw as ServerResponse & Http2ServerResponse;
  if (response.stream?.destroyed !== false) return;
  const headers: Record<string, string> = { "content-type": "application/grpc+proto" };
  for (const [name, value] of Object.entries(reply.getHeaders()))
    if (value !== undefined) headers[name] = String(value);
  header.forEach((value, name) => {
    headers[name] = value;
  });
  response.writeHead(200, headers);
  response.addTrailers(
    answer === undefined ? refusalTrailers(trailer, service, call.requestId, call.refusal) : trailersOf(trailer),
  );
  response.end(answer);
}

function trailersOf(trailer: Headers): Record<string, string> {
  return { ...Object.fromEntries(trailer), "grpc-status": "0" };
}

function refusalTrailers(
  trailer: Headers,
  service: string,
  requestId: Parameters<typeof toConnectError>[1],
  refusal: ServiceError | undefined,
): Record<string, string> {
  return Object.fromEntries(
    setTrailerStatus(trailer, toConnectError(service, requestId, refusal ?? toServiceError(undefined))),
  );
}
