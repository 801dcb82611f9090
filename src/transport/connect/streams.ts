/**
 * Streams on gRPC, gRPC-Web and Connect, carried by Connect's own handlers. The headers decide whether a stream may
 * open and how much of its body is read.
 */
import type { Http2ServerResponse } from "node:http2";
import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError, createConnectRouter, createContextValues, type Interceptor } from "@connectrpc/connect";
import type { Compression, UniversalHandler, UniversalHandlerOptions } from "@connectrpc/connect/protocol";
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { invalidRequest, ServiceError } from "../../base/errors.ts";
import type { InboundRequest } from "../../base/inbound-request.ts";
import { neighbourhood } from "../../base/network.ts";
import { rememberedBy } from "../../base/remembered.ts";
import { localSums } from "../../base/sums.ts";
import { bodyTooLarge } from "../../http/body.ts";
import { abortRefusal, callerGone, deadlinePassed, startDeadline } from "../../http/deadline.ts";
import { resetWithAnswer } from "../../http/unread-body.ts";
import { answerHeaders, type Call, callOf, kCall, route } from "../calls/call.ts";
import { type AdapterOptions, addRoute } from "../calls/exchange.ts";
import { Inlet, windowBytes } from "../calls/inlet.ts";
import { implementation, type ServiceBinding } from "../calls/methods.ts";
import {
  methodNotAllowed,
  protocolOf,
  type RefusedWith,
  sendRefusal,
  toConnectError,
  toServiceError,
  undeclaredCompression,
  wrongMessageCount,
} from "../calls/refusals.ts";
import { binaryOptions } from "../codec/binary-records.ts";
import type { Chain } from "../gate/chain.ts";
import { decompressors, timeoutOf } from "./unary.ts";

/** Longest time that a stream stays open: one day, in milliseconds. Its caller then opens another. */
const maxStreamMs = 86_400_000;

/** A stream whose headers are in. */
interface OpeningStream {
  readonly request: FastifyRequest;
  readonly call: Call;
  readonly rpc: string;
  readonly method: DescMethod;
  readonly body: AsyncIterable<Uint8Array>;
  /** Aborted when the deadline passes, and when the caller goes away. */
  readonly signal: AbortSignal;
  /** Aborted when the deadline passes. */
  readonly deadline: AbortSignal;
  /** Runs the work when the stream has ended. */
  onEnd(work: () => void): void;
}

interface StreamsOptions {
  readonly service: string;
  readonly handlerOptions: Pick<UniversalHandlerOptions, "binaryOptions" | "jsonOptions">;
  readonly maxMessageBytes: (rpc: string) => number;
  readonly acceptsCompression: boolean;
  /** Returns what of the body is read. Throws or rejects with a `ServiceError` to refuse. */
  readonly open: (stream: OpeningStream) => AsyncIterable<Uint8Array> | Promise<AsyncIterable<Uint8Array>>;
}

/** Serves the streams of the services. */
export function registerStreams(
  app: FastifyInstance,
  services: readonly ServiceBinding[],
  options: StreamsOptions,
): void {
  const router = createConnectRouter();
  for (const { desc, impl } of services) {
    for (const method of desc.methods) {
      if (method.methodKind === "unary") continue;
      router.rpc(method, implementation(method, impl), {
        ...options.handlerOptions,
        interceptors: [reportStreamErrors(options.service)],
        readMaxBytes: options.maxMessageBytes(`${desc.name}/${method.name}`),
        acceptCompression: [undeclared, ...(options.acceptsCompression ? compressions : [])],
      });
    }
  }
  for (const handler of router.handlers)
    addRoute(app, app.supportedMethods, handler.requestPath, (request, reply) =>
      carry(handler, options, request, reply),
    );
}

async function carry(
  handler: UniversalHandler,
  { service, open, acceptsCompression }: StreamsOptions,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const { raw } = request;
  const { raw: response } = reply;
  const { method } = handler;
  const rpc = `${handler.service.name}/${method.name}`;
  const call = route(request.call, protocolOf(raw.headers["content-type"]), rpc);
  const refuse = (refusal: ServiceError, refusedWith?: RefusedWith) =>
    sendRefusal(service, refusal, request, reply, refusedWith);
  if (call.inbound.method !== "POST") return refuse(methodNotAllowed("POST"), { headers: { allow: "POST" } });
  // Over HTTP/1.1 there is no stream, and a watch ends with its answer.
  const { stream } = response as unknown as Partial<Http2ServerResponse>;
  if (stream !== undefined) resetWithAnswer(stream);
  const values = createContextValues().set(kCall, call);
  const universal = universalRequestFromNodeRequest(raw, response, undefined, values);
  const { header } = universal;
  const { timeoutMs, problem } = timeoutOf(call.protocol as keyof typeof encodingHeaders, raw.headers);
  // Ours counts while the body is read; Connect's would start a timer of any length.
  for (const name of ["grpc-timeout", "connect-timeout-ms"]) header.delete(name);
  const deadline = startDeadline(timeoutMs, maxStreamMs, call.ticket?.waitedMs);
  const onEnd = (work: () => void) => {
    if (universal.signal.aborted) work();
    else universal.signal.addEventListener("abort", work, { once: true });
  };
  // Ends the timer, which would keep the connection and all that it holds.
  onEnd(deadline.end);
  const signal = AbortSignal.any([universal.signal, deadline.signal]);
  try {
    const opening = { request, call, rpc, method, signal, deadline: deadline.signal, onEnd };
    const body = await open({ ...opening, body: universal.body as AsyncIterable<Uint8Array> });
    negotiate(header, encodingHeaders[call.protocol as keyof typeof encodingHeaders], acceptsCompression);
    if (problem !== undefined) throw problem;
    const answer = await handler({ ...universal, signal, body });
    if (answer.status === 505)
      return refuse(invalidRequest("", "http.version", "this method needs HTTP/2"), {
        headers: Object.fromEntries(answer.header ?? []),
        status: 505,
      });
    if (answer.status !== 200)
      return refuse(new ServiceError("unsupported_media_type", "content type is not supported by this method"));
    for (const [name, value] of Object.entries({ ...answerHeaders(call), ...call.announced }))
      response.setHeader(name, value);
    await universalResponseToNodeResponse(answer, response);
  } catch (thrown) {
    if (response.destroyed || response.closed || response.errored) return;
    if (!response.headersSent) return refuse(toServiceError(thrown));
    // The answer has begun, so it can only be cut short.
    call.refusal ??= new ServiceError("internal", "the answer could not be written", { cause: thrown });
    response.destroy();
  }
}

const encodingHeaders = {
  connect: "connect-content-encoding",
  grpc: "grpc-encoding",
  grpc_web: "grpc-encoding",
} as const;
const acceptHeaders = ["connect-accept-encoding", "grpc-accept-encoding"];

/** Encoding of a request that declares none: a compressed message is then refused. */
const undeclared: Compression = {
  name: "undeclared",
  compress: (bytes) => Promise.resolve(new Uint8Array(bytes)),
  decompress: () => Promise.reject(undeclaredCompression()),
};

const noLease = { holds() {}, release() {} };
const compressions = [...decompressors].map(
  ([name, decompress]): Compression => ({
    ...undeclared,
    name,
    decompress: async (bytes, maxBytes) => new Uint8Array(await decompress(bytes, 0, { maxBytes, lease: noLease })),
  }),
);

/** Refuses an unknown encoding of messages. Answers are never compressed. */
function negotiate(header: Headers, encodingHeader: string, acceptsCompression: boolean): void {
  const encoding = header.get(encodingHeader) ?? "identity";
  if (encoding === "identity") header.set(encodingHeader, undeclared.name);
  else if (!acceptsCompression || !decompressors.has(encoding))
    throw new ServiceError("unsupported_encoding", "message encoding is not supported");
  for (const name of acceptHeaders) header.set(name, "identity");
}

/** An error that ends a stream leaves as any other refusal, and is noted for the log line. */
export function reportStreamErrors(service: string): Interceptor {
  return (next) => async (request) => {
    const { signal } = request;
    const restate = (thrown: unknown): ConnectError => {
      const call = callOf({ values: request.contextValues });
      call.refusal = refusalOf(thrown, signal);
      return toConnectError(service, call.requestId, call.refusal);
    };
    try {
      const isJson = /json/i.test(request.header.get("content-type") ?? "");
      const response = await next(
        request.stream ? { ...request, message: readable(request.message, isJson, signal) } : request,
      );
      return response.stream ? { ...response, message: endInTime(response.message, signal, restate) } : response;
    } catch (thrown) {
      throw restate(thrown);
    }
  };
}

/** A body that the deadline cut off cannot be decoded either. */
function refusalOf(thrown: unknown, signal: AbortSignal): ServiceError {
  if (isPast(signal)) return deadlinePassed;
  // Work for a caller that has left rejects with the signal's reason.
  const isAbort = thrown === signal.reason || (thrown instanceof Error && thrown.name === "AbortError");
  if (signal.aborted && isAbort) return abortRefusal(signal);
  if (!isOfProtocol(thrown)) return toServiceError(thrown);
  if (signal.aborted) return callerGone;
  // Connect counts the messages of a stream that has only one.
  return thrown.code === Code.Unimplemented ? wrongMessageCount() : toServiceError(thrown);
}

/** Yields the messages. Throws the refusal of one that Connect cannot read; its text may quote the message. */
async function* readable<T>(messages: AsyncIterable<T>, isJson: boolean, signal: AbortSignal): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (thrown) {
    throw isOfProtocol(thrown) && !signal.aborted ? unreadable(thrown, isJson) : thrown;
  }
}

function unreadable(cause: ConnectError, isJson: boolean): ServiceError {
  switch (cause.code) {
    case Code.ResourceExhausted:
      return bodyTooLarge();
    case Code.Internal:
      // Connect reports malformed binary as internal.
      return isJson
        ? toServiceError(cause)
        : invalidRequest("", "protobuf", "message is not valid protobuf", { cause });
    case Code.InvalidArgument:
      return invalidRequest("", "decode", "message could not be decoded", { cause });
    default:
      return toServiceError(cause);
  }
}

/** Whether Connect raised the error. */
function isOfProtocol(thrown: unknown): thrown is ConnectError {
  return thrown instanceof ConnectError && !(thrown.cause instanceof ServiceError);
}

/** The deadline ends the messages early, which counts as an error. */
async function* endInTime<T>(
  messages: AsyncIterable<T>,
  signal: AbortSignal,
  restate: (thrown: unknown) => ConnectError,
): AsyncGenerator<T> {
  try {
    yield* messages;
    if (isPast(signal)) throw deadlinePassed;
  } catch (thrown) {
    throw restate(thrown);
  }
}

function isPast(signal: AbortSignal): boolean {
  return signal.aborted && abortRefusal(signal) === deadlinePassed;
}

// Streams of authenticated callers. They pass the gate, and their memory is bounded and counted like that of bodies.

/** An agent needs one per channel; a shared address has many agents. */
const streamLimits: StreamLimits = { perConnection: 16, perAddress: 256, perNeighbourhood: 512, inAll: 1024 };

/** Refuses unknown members, and text that is not UTF-8. Connect reads `textDecoder`, though its types lack it. */
const strictJson = {
  ignoreUnknownFields: false,
  textDecoder: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }),
};

interface BulkStreamsOptions
  extends Pick<AdapterOptions, "service" | "limits" | "bodies">,
    Pick<Chain, "gate" | "gateStill" | "readOptions"> {
  readonly stopping: AbortSignal;
  /** Returns the address of a call, as `callerAddress` does. */
  readonly addressOf: (inbound: InboundRequest) => string;
}

export function bulkStreams(options: BulkStreamsOptions): StreamsOptions {
  const { service, gate, gateStill, readOptions, limits, bodies, stopping, addressOf } = options;
  const enter = streamLimiter(streamLimits, addressOf);
  return {
    service,
    handlerOptions: { binaryOptions, jsonOptions: strictJson },
    maxMessageBytes: limits.maxBodyBytes,
    acceptsCompression: false,
    async open({ request, call, rpc, body, signal, onEnd }) {
      await gate({ call, rpc, signal });
      // A stream mostly waits for its caller, and takes a turn for each message.
      call.ticket?.park();
      readOptions(call);
      onEnd(enter(request));
      const lease = bodies.lease(call);
      // The window and one more message.
      lease.holds(windowBytes + limits.maxBodyBytes(rpc));
      onEnd(lease.release);
      const inlet = new Inlet<unknown>();
      call.feed = { inlet, stopping, stillAllowed: () => gateStill({ call, rpc, signal }) };
      return inlet.body(body);
    },
  };
}

// Limits the open streams of callers, each of which holds memory.

interface StreamLimits {
  /** Of one caller on one connection. A connection of the ingress carries many callers. */
  readonly perConnection: number;
  /** Of one address; an IPv6 /64 counts as one address. */
  readonly perAddress: number;
  /** Of addresses that one party probably holds: IPv4 /24, IPv6 /48. */
  readonly perNeighbourhood: number;
  readonly inAll: number;
}

/** Watches: one per channel of a client is enough. */
export const watchLimits: StreamLimits = { perConnection: 16, perAddress: 64, perNeighbourhood: 256, inAll: 1024 };
/** Conversations are short. */
export const conversationLimits: StreamLimits = { perConnection: 4, perAddress: 16, perNeighbourhood: 64, inAll: 256 };

/**
 * Returns a function that counts a stream, and returns what to call at its end. It refuses streams beyond the limits:
 * `rate_limited` if the caller has too many, `overloaded` if all callers together have.
 *
 * @param addressOf returns the address of a call, as `callerAddress` does
 */
export function streamLimiter(limits: StreamLimits, addressOf: (inbound: InboundRequest) => string) {
  const open = localSums();
  return (request: FastifyRequest) => {
    const address = addressOf(request.call.inbound);
    const shares = [
      { name: `${connectionNumber(request)} ${address}`, maximum: limits.perConnection, reason: "rate_limited" },
      { name: address, maximum: limits.perAddress, reason: "rate_limited" },
      { name: neighbourhood(address), maximum: limits.perNeighbourhood, reason: "rate_limited" },
      { name: "all", maximum: limits.inAll, reason: "overloaded" },
    ] as const;
    const full = open.addAll(shares, 1);
    if (full !== undefined) throw new ServiceError(full.reason, "too many streams are open", { retryAfterSeconds: 1 });
    return () => {
      for (const { name } of shares) open.subtract(name, 1);
    };
  };
}

let connections = 0;
const numberOf = rememberedBy((_connection: object) => ++connections);

function connectionNumber({ raw }: FastifyRequest): number {
  const { stream, socket } = raw as { stream?: { session?: object } } & typeof raw;
  return numberOf(stream?.session ?? socket);
}
