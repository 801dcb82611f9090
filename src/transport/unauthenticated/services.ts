/**
 * Services that need no credentials, because those who call them have none: health probes, and tools that ask what
 * there is. They stream, so Connect's own plugin carries them, outside the gate and without JSON routes.
 */
import type { Http2ServerResponse } from "node:http2";
import { createContextValues } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import type { FastifyInstance } from "fastify";
import type { InboundRequest } from "../../auth/inbound-request.ts";
import { kCall } from "../calls/call.ts";
import { startDeadline } from "../calls/deadline.ts";
import { type AdapterOptions, kRequest } from "../calls/exchange.ts";
import { implementation, type ServiceBinding } from "../calls/methods.ts";
import { acceptAnyContentType } from "../connect/plugin.ts";
import { serveConnect } from "../connect/routes.ts";
import { reportStreamErrors } from "../connect/stream-interceptors.ts";
import { conversationLimits, limitStreams, watchLimits } from "../connect/stream-limits.ts";
import { carry, takeTimeout, wrap } from "../connect/wrap.ts";
import { resetWithAnswer } from "../http/unread-body.ts";

/** Largest message that these services read, in bytes: they take names. */
const maxMessageBytes = 4096;
/** Longest time that a caller may go on asking on one stream, in milliseconds. */
const maxConversationMs = 60_000;
/** Longest time that a stream stays open, in milliseconds: a day. Those who watch begin again. */
const maxStreamMs = 86_400_000;

export interface UnauthenticatedServicesOptions extends Pick<AdapterOptions, "service" | "limits" | "bodies"> {
  /** Aborted when the server begins to stop: nothing more is read from open streams. */
  readonly stopping: AbortSignal;
  /** The address that a call comes from, as `callerAddress` returns it. */
  readonly addressOf: (inbound: InboundRequest) => string;
}

/** Paths of the methods of these services. */
export function unauthenticatedPaths(services: readonly ServiceBinding[]): string[] {
  return services.flatMap(({ desc }) => desc.methods.map(({ name }) => `/${desc.typeName}/${name}`));
}

/** Serves them on gRPC, gRPC-Web and Connect. */
export function registerUnauthenticated(
  app: FastifyInstance,
  services: readonly ServiceBinding[],
  options: UnauthenticatedServicesOptions,
): void {
  acceptAnyContentType(app);
  const report = reportStreamErrors(options.service);
  // Those who watch and those who ask do not keep each other out.
  const interceptors = {
    unary: [report],
    server_streaming: [report, limitStreams(watchLimits, options.addressOf)],
    bidi_streaming: [report, limitStreams(conversationLimits, options.addressOf)],
  };
  const shared = { readMaxBytes: maxMessageBytes, acceptCompression: [compressionGzip, compressionBrotli] };
  serveConnect(app, {
    routes: (router) => {
      for (const { desc, impl } of services) {
        for (const method of desc.methods) {
          const kind = method.methodKind === "client_streaming" ? "bidi_streaming" : method.methodKind;
          router.rpc(method, implementation(method, impl), { ...shared, interceptors: interceptors[kind] });
        }
      }
      router.handlers.forEach((handler, i) => {
        router.handlers[i] =
          handler.method.methodKind === "unary" ? wrapUnary(handler, options) : wrapStream(handler, options);
      });
    },
    contextValues: (request) => createContextValues().set(kCall, request.call).set(kRequest, request),
  });
}

function wrapUnary(handler: UniversalHandler, options: UnauthenticatedServicesOptions): UniversalHandler {
  const limits = { ...options.limits, maxBodyBytes: () => maxMessageBytes };
  return wrap(handler, { ...options, limits, interceptors: [], rules: () => [], gate: async () => {} });
}

/** What `wrap` does, as far as it goes for a stream: its answer is not complete when it begins. */
function wrapStream(
  handler: UniversalHandler,
  { service, limits, stopping }: UnauthenticatedServicesOptions,
): UniversalHandler {
  const bodyTimeoutMs = handler.method.methodKind === "server_streaming" ? limits.bodyTimeoutMs : maxConversationMs;
  return carry(handler, service, (universal, request) => {
    // A watch ends with its answer over HTTP/1.1, where there is no stream.
    const { stream } = request.response as unknown as Partial<Http2ServerResponse>;
    if (stream !== undefined) resetWithAnswer(stream);
    const deadline = startDeadline(takeTimeout(universal.header, request.call.protocol), maxStreamMs);
    // Timers keep what they were started for: the connection, and all that it holds.
    const reading = startDeadline(undefined, bodyTimeoutMs);
    whenAborted(universal.signal, () => {
      deadline.end();
      reading.end();
    });
    const enough = AbortSignal.any([stopping, reading.signal, deadline.signal]);
    return handler({
      ...universal,
      signal: AbortSignal.any([universal.signal, deadline.signal]),
      body: bodyUntil(universal.body as AsyncIterable<Uint8Array>, enough),
    });
  });
}

function whenAborted(signal: AbortSignal, run: () => void): void {
  if (signal.aborted) run();
  else signal.addEventListener("abort", run, { once: true });
}

/** The same body, which ends when it ends or when the signal aborts, whichever comes first. */
export async function* bodyUntil(body: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const iterator = body[Symbol.asyncIterator]();
  const enough: IteratorResult<Uint8Array> = { done: true, value: undefined };
  // Set anew for each piece: a promise that every piece is raced with would keep what it was raced with.
  let stop: (() => void) | undefined;
  const onAbort = () => stop?.();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    while (!signal.aborted) {
      const next = Promise.withResolvers<IteratorResult<Uint8Array>>();
      stop = () => next.resolve(enough);
      iterator.next().then(next.resolve, next.reject);
      const { done, value } = await next.promise;
      if (done === true) return;
      yield value;
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
