/**
 * Plain unary gRPC: HTTP/2, protobuf, no compression, one message. Calls go straight to the unary invoker and are
 * answered as the Connect plugin does, several times faster. The plugin serves everything else. A differential test
 * compares the two.
 */
import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { fromBinary, type Message } from "@bufbuild/protobuf";
import { parseTimeout, setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { invalidRequest } from "../../base/errors.ts";
import { ticketOf } from "../../http/admit.ts";
import { declaredBytes, readBody } from "../../http/body.ts";
import type { BodyLease } from "../../http/body-budget.ts";
import { startDeadline } from "../../http/deadline.ts";
import type { StreamHandler } from "../../http/http2-server.ts";
import { headerProblem, inboundOf } from "../../http/inbound-request.ts";
import { resetWithAnswer } from "../../http/unread-body.ts";
import type { Call } from "../calls/call.ts";
import { CallContext } from "../calls/context.ts";
import { toConnectError, toServiceError } from "../calls/errors.ts";
import { type AdapterOptions, maxItemBytes } from "../calls/exchange.ts";
import { answerHeaders, beginCall, type CallLifecycle, endCall } from "../calls/lifecycle.ts";
import type { ServedMethod } from "../calls/methods.ts";
import { type UnaryInvoker, unaryInvoker } from "../calls/unary-invoker.ts";
import { binaryOptions, notProtobuf, requireFewRecords } from "../codec/binary-records.ts";
import { itemField, takeBinaryItems } from "../codec/items.ts";
import { frameEncoder } from "./encode.ts";
import { decodeOnly, frameHeaderBytes } from "./frame.ts";

interface Served {
  readonly method: ServedMethod;
  readonly invoke: UnaryInvoker;
  readonly encode: (message: Message) => Buffer;
}

export type GrpcOptions = AdapterOptions & CallLifecycle;

/**
 * Returns a handler that takes the streams of plain unary gRPC calls, which it recognizes by their headers. All others
 * become requests, which the router passes to the Connect plugin or refuses.
 */
export function serveGrpc(methods: readonly ServedMethod[], options: GrpcOptions): StreamHandler {
  const served = new Map<unknown, Served>(
    methods.map((method) => {
      const invoke = unaryInvoker(method.spec, options.interceptors);
      return [method.rpcPath, { method, invoke, encode: frameEncoder(method.spec.method.output) }];
    }),
  );
  return (stream, headers, rawHeaders) => {
    const one = isPlainUnary(headers) ? served.get(headers[":path"]) : undefined;
    if (one === undefined || headerProblem(rawHeaders) !== undefined) return false;
    void handle(one, options, stream, headers, rawHeaders);
    return true;
  };
}

function isPlainUnary(headers: IncomingHttpHeaders): boolean {
  if (headers[":method"] !== "POST" || headers.expect !== undefined) return false;
  const type = headers["content-type"];
  if (type !== "application/grpc" && type !== "application/grpc+proto") return false;
  const encoding = headers["grpc-encoding"];
  return encoding === undefined || encoding === "identity";
}

async function handle(
  { method, invoke, encode }: Served,
  options: GrpcOptions,
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  rawHeaders: readonly string[],
): Promise<void> {
  const { limits } = options;
  const { spec, rpc } = method;
  const call = beginCall(rawHeaders, options, ticketOf(stream));
  call.protocol = "grpc";
  call.rpc = rpc;
  const url = method.rpcPath;
  const inbound = inboundOf({ rawHeaders, socket: stream.session?.socket, method: "POST", url });
  const timeout = parseTimeout(headers["grpc-timeout"]?.toString() ?? null, Number.MAX_SAFE_INTEGER);
  const deadline = startDeadline(timeout.timeoutMs, limits.maxDeadlineMs, call.ticket?.waitedMs);
  let isEnded = false;
  stream.on("close", () => {
    const isAnswered = isEnded && stream.writableFinished;
    endCall(call, inbound, "2.0", isAnswered ? 200 : undefined, options);
    if (!isAnswered) deadline.cancel();
  });
  const context = new CallContext({
    spec,
    call,
    deadline,
    protocolName: "grpc",
    requestMethod: inbound.method,
    url,
    rawHeaders,
  });
  let answer: Buffer | undefined;
  let lease: BodyLease | undefined;
  try {
    await options.gate({ call, inbound, rpc, signal: deadline.signal });
    if (timeout.error !== undefined) throw invalidRequest("", "timeout", "the timeout header is malformed");
    lease = options.bodies.lease(call, inbound);
    const message = await readMessage(method, options, stream, headers, call, lease, deadline.signal);
    answer = encode(await invoke(context, message));
  } catch (thrown) {
    call.refusal = toServiceError(thrown);
  }
  deadline.end();
  lease?.release();
  if (stream.destroyed || stream.closed) return;
  const trailers =
    answer === undefined
      ? refusalTrailers(context.responseTrailer, options.service, call)
      : { ...context.answerTrailers, "grpc-status": "0" };
  const answerHead = { "content-type": "application/grpc+proto", ...answerHeaders(call), ...call.announced };
  stream.respond({ ...answerHead, ...context.answerHeaders }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers(trailers));
  resetWithAnswer(stream);
  isEnded = true;
  stream.end(answer);
}

/** A function for reading and decoding, so that nothing keeps the bytes during the call. */
async function readMessage(
  method: ServedMethod,
  { limits, rules }: GrpcOptions,
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  call: Call,
  lease: BodyLease,
  signal: AbortSignal,
): Promise<Message> {
  const { maxBodyBytes, bodyTimeoutMs } = limits;
  const maxBytes = maxBodyBytes(method.rpc);
  const bodyLimits = { maxBytes: maxBytes + frameHeaderBytes, timeoutMs: bodyTimeoutMs, lease };
  const announced = { bytes: declaredBytes({ headers }), isFramed: true };
  const body = await readBody(stream, announced, bodyLimits, signal, call.ticket);
  const items = itemField(method.spec.method.input);
  return decodeOnly(body, maxBytes, (bytes) => {
    if (items === undefined) return decode(method, bytes);
    const taken = takeBinaryItems(items, bytes, { rules, maxBytes: maxItemBytes(limits, method.rpc) });
    call.items = taken.items;
    return decode(method, taken.rest);
  });
}

function decode({ spec }: ServedMethod, message: Uint8Array): Message {
  const { input } = spec.method;
  requireFewRecords(input, message);
  try {
    return fromBinary(input, message, binaryOptions);
  } catch {
    throw notProtobuf();
  }
}

function refusalTrailers(trailer: Headers, service: string, { requestId, refusal }: Call): Record<string, string> {
  const error = toConnectError(service, requestId, refusal ?? toServiceError(undefined));
  return Object.fromEntries(setTrailerStatus(trailer, error));
}
