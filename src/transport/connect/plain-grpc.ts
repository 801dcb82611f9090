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

interface Served {
  readonly method: UnaryMethod;
  readonly carry: UnaryCarrier;
}

/** Returns a handler that takes the streams of plain unary gRPC calls, which it recognizes by their headers. */
export function servePlainGrpc(
  methods: readonly UnaryMethod[],
  options: AdapterOptions & CallLifecycle,
): StreamHandler {
  const served = new Map<unknown, Served>(
    methods.map((method) => [method.rpcPath, { method, carry: unaryCarrier(method, options) }]),
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
  { method: { rpc, rpcPath: url }, carry }: Served,
  lifecycle: CallLifecycle,
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  rawHeaders: readonly string[],
): Promise<void> {
  const call = beginCall(rawHeaders, lifecycle, ticketOf(stream));
  call.protocol = "grpc";
  call.rpc = rpc;
  const inbound = inboundOf({ rawHeaders, socket: stream.session?.socket, method: "POST", url });
  let isEnded = false;
  let cancel = () => {};
  stream.on("close", () => {
    const isAnswered = isEnded && stream.writableFinished;
    endCall(call, inbound, "2.0", isAnswered ? 200 : undefined, lifecycle);
    if (!isAnswered) cancel();
  });
  const written = await carry({
    ...{ call, inbound, headers, rawHeaders, stream },
    form: { ...timeoutOf("grpc", headers), protocol: "grpc", isJson: false },
    whenGone: (onGone) => {
      cancel = onGone;
    },
  });
  if (stream.destroyed || stream.closed) return;
  stream.respond({ ...answerHeaders(call), ...call.announced, ...written.headers }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers(written.trailers ?? {}));
  resetWithAnswer(stream);
  isEnded = true;
  if (written.body.byteLength > 0) stream.end(written.body);
  else stream.end();
}
