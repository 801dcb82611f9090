/**
 * Plain unary gRPC: HTTP/2, protobuf, no compression. Its streams never become requests of Node's compatibility layer or
 * of fastify, which makes them several times faster. All others do.
 */
import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { ticketOf } from "../../http/admit.ts";
import type { StreamHandler } from "../../http/http2-server.ts";
import { headerProblem, inboundOf } from "../../http/inbound-request.ts";
import { resetWithAnswer } from "../../http/unread-body.ts";
import { answerHeaders, beginCall, type CallLifecycle, endCall } from "../calls/call.ts";
import type { AdapterOptions } from "../calls/exchange.ts";
import type { UnaryMethod } from "../calls/methods.ts";
import { timeoutOf, type UnaryCarrier, unaryCarrier } from "./unary.ts";

/** Returns a handler that takes the streams of plain unary gRPC calls, which it recognizes by their headers. */
export function servePlainGrpc(
  methods: readonly UnaryMethod[],
  options: AdapterOptions & CallLifecycle,
): StreamHandler {
  const carriers = new Map<unknown, UnaryCarrier>(
    methods.map((method) => [method.rpcPath, unaryCarrier(method, options)]),
  );
  return (stream, headers, rawHeaders) => {
    const carry = isPlainUnary(headers) ? carriers.get(headers[":path"]) : undefined;
    if (carry === undefined || headerProblem(rawHeaders) !== undefined) return false;
    void handle(carry, options, stream, headers, rawHeaders);
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
  carry: UnaryCarrier,
  lifecycle: CallLifecycle,
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  rawHeaders: readonly string[],
): Promise<void> {
  const { ":path": url } = headers;
  const inbound = inboundOf({ rawHeaders, socket: stream.session?.socket, method: "POST", url });
  const call = beginCall(inbound, lifecycle, ticketOf(stream));
  let isEnded = false;
  stream.on("close", () => endCall(call, "2.0", isEnded && stream.writableFinished ? 200 : undefined, lifecycle));
  const form = { ...timeoutOf("grpc", headers), protocol: "grpc", isJson: false } as const;
  const written = await carry(call, { headers, rawHeaders, stream }, form);
  if (stream.destroyed || stream.closed) return;
  stream.respond({ ...answerHeaders(call), ...call.announced, ...written.headers }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers(written.trailers ?? {}));
  resetWithAnswer(stream);
  isEnded = true;
  if (written.body.byteLength > 0) stream.end(written.body);
  else stream.end();
}
