/**
 * Services without credentials: health probes, and reflection for tools. They stream, so Connect's own plugin carries
 * them, outside the gate and without JSON routes.
 */
import type { Http2ServerResponse } from "node:http2";
import { createContextValues } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import type { FastifyInstance } from "fastify";
import type { InboundRequest } from "../../base/inbound-request.ts";
import { startDeadline } from "../../http/deadline.ts";
import { resetWithAnswer } from "../../http/unread-body.ts";
import { kCall } from "../calls/call.ts";
import { type AdapterOptions, kRequest } from "../calls/exchange.ts";
import { implementation, type ServiceBinding } from "../calls/methods.ts";
import { acceptAnyContentType } from "../connect/plugin.ts";
import { serveConnect } from "../connect/routes.ts";
import { reportStreamErrors } from "../connect/stream-interceptors.ts";
import { conversationLimits, limitStreams, watchLimits } from "../connect/stream-limits.ts";
import { carry, takeTimeout, wrap } from "../connect/wrap.ts";

/** Largest message of these services, in bytes: they take names. */
const maxMessageBytes = 4096;
/** Longest time in which a caller may send on one stream, in milliseconds. */
const maxConversationMs = 60_000;
/** Longest time that a stream stays open: one day, in milliseconds. Watchers then reconnect. */
const maxStreamMs = 86_400_000;

export interface UnauthenticatedServicesOptions extends Pick<AdapterOptions, "service" | "limits" | "bodies"> {
  /** Aborted when the server begins to stop: open streams are no longer read. */
  readonly stopping: AbortSignal;
  /** Returns the address of a call, as `callerAddress` does. */
  readonly addressOf: (inbound: InboundRequest) => string;
}

export function unauthenticatedPaths(services: readonly ServiceBinding[]): string[] {
  return services.flatMap(({ desc }) => desc.methods.map(({ name }) => `/${desc.typeName}/${name}`));
}

/** Serves the services on gRPC, gRPC-Web and Connect. */
export function registerUnauthenticated(
  app: FastifyInstance,
  services: readonly ServiceBinding[],
  options: UnauthenticatedServicesOptions,
): void {
  acceptAnyContentType(app);
  const report = reportStreamErrors(options.service);
  // Watches and conversations have separate limits.
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

/** `wrap` for a stream, whose answer is not complete when it begins. */
function wrapStream(
  handler: UniversalHandler,
  { service, limits, stopping }: UnauthenticatedServicesOptions,
): UniversalHandler {
  const bodyTimeoutMs = handler.method.methodKind === "server_streaming" ? limits.bodyTimeoutMs : maxConversationMs;
  return carry(handler, service, (universal, request) => {
    // Over HTTP/1.1 there is no stream, and a watch ends with its answer.
    const { stream } = request.response as unknown as Partial<Http2ServerResponse>;
    if (stream !== undefined) resetWithAnswer(stream);
    const deadline = startDeadline(takeTimeout(universal.header, request.call.protocol), maxStreamMs);
    // Ends the timer, which would keep the connection and all that it holds.
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

/** Yields the body until it ends or the signal aborts. */
export async function* bodyUntil(body: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const iterator = body[Symbol.asyncIterator]();
  const enough: IteratorResult<Uint8Array> = { done: true, value: undefined };
  // Set again for each piece: racing every piece with one promise would keep all of them in memory.
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
