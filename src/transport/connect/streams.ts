/**
 * Streams of authenticated callers. Connect's own plugin carries them, on gRPC and Connect over HTTP/2. They pass the
 * same gate as every call, and their memory is bounded and counted like that of bodies.
 */
import type { Http2ServerResponse } from "node:http2";
import { createContextValues, type Interceptor } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import type { FastifyInstance } from "fastify";
import type { InboundRequest } from "../../base/inbound-request.ts";
import { startDeadline } from "../../http/deadline.ts";
import { resetWithAnswer } from "../../http/unread-body.ts";
import { callOf, kCall } from "../calls/call.ts";
import { toConnectError, toServiceError } from "../calls/errors.ts";
import { type AdapterOptions, kRequest } from "../calls/exchange.ts";
import type { Gate } from "../calls/gate.ts";
import { Inlet, kInlet, kStillAllowed, kStopping } from "../calls/inlet.ts";
import { implementation, type ServiceBinding } from "../calls/methods.ts";
import { binaryOptions } from "../codec/binary-records.ts";
import { readCallOptions } from "../gate/interceptors.ts";
import { acceptAnyContentType, strictJson } from "./plugin.ts";
import { serveConnect } from "./routes.ts";
import { reportStreamErrors } from "./stream-interceptors.ts";
import { limitStreams, type StreamLimits } from "./stream-limits.ts";
import { carry, takeTimeout } from "./wrap.ts";

/** An agent needs one per channel; a shared address has many agents. */
const streamLimits: StreamLimits = { perConnection: 16, perAddress: 256, perNeighbourhood: 512, inAll: 1024 };
/** Bytes that are read and not settled; each stream reserves these and one more message. */
const windowBytes = 256 * 1024;
const maxItems = 256;
/** Longest time that a stream stays open: one day, in milliseconds. */
const maxStreamMs = 86_400_000;

export interface StreamsOptions extends Pick<AdapterOptions, "service" | "gate" | "limits" | "bodies"> {
  readonly headerPrefix: string;
  /** Passed again whenever a message arrives on a stream. */
  readonly gateStill: Gate;
  readonly stopping: AbortSignal;
  /** Returns the address of a call, as `callerAddress` does. */
  readonly addressOf: (inbound: InboundRequest) => string;
}

/** Serves the services; all their methods are bidirectional streams. */
export function registerStreams(
  app: FastifyInstance,
  services: readonly ServiceBinding[],
  options: StreamsOptions,
): void {
  const { service, limits, stopping, headerPrefix, addressOf } = options;
  acceptAnyContentType(app);
  const interceptors = [
    reportStreamErrors(service),
    readCallOptions(headerPrefix),
    limitStreams(streamLimits, addressOf),
    reserveMemory(options),
  ];
  serveConnect(app, {
    routes: (router) => {
      for (const { desc, impl } of services) {
        for (const method of desc.methods) {
          router.rpc(method, implementation(method, impl), {
            interceptors,
            readMaxBytes: limits.maxBodyBytes(`${desc.name}/${method.name}`),
            acceptCompression: [],
            jsonOptions: strictJson,
            binaryOptions,
            requestGate: async (context) => {
              const call = callOf(context);
              const { inbound } = context.values.get(kRequest) ?? {};
              if (inbound === undefined || call.rpc === undefined) throw new Error("call without a request");
              try {
                await options.gate({ call, inbound, rpc: call.rpc, signal: context.signal });
              } catch (thrown) {
                throw toConnectError(service, call.requestId, toServiceError(thrown));
              }
              // A stream mostly waits for its caller, and takes a turn for each message.
              call.ticket?.park();
              const { rpc } = call;
              context.values.set(kStillAllowed, () =>
                options.gateStill({ call, inbound, rpc, signal: context.signal }),
              );
            },
          });
        }
      }
      router.handlers.forEach((handler, i) => {
        router.handlers[i] = wrapStream(handler, service);
      });
    },
    contextValues: (request) =>
      createContextValues()
        .set(kCall, request.call)
        .set(kRequest, request)
        .set(kStopping, stopping)
        .set(kInlet, new Inlet({ maxItems, maxBytes: windowBytes })),
  });
}

/** Reserves memory for each open stream. */
function reserveMemory({ bodies, limits }: StreamsOptions): Interceptor {
  return (next) => (request) => {
    const { inbound } = request.contextValues.get(kRequest) ?? {};
    const call = callOf({ values: request.contextValues });
    if (inbound === undefined || call.rpc === undefined) throw new Error("call without a request");
    const lease = bodies.lease(call, inbound);
    lease.holds(windowBytes + limits.maxBodyBytes(call.rpc));
    request.signal.addEventListener("abort", () => lease.release(), { once: true });
    if (request.signal.aborted) lease.release();
    return next(request);
  };
}

function wrapStream(handler: UniversalHandler, service: string): UniversalHandler {
  return carry(handler, service, (universal, request) => {
    const { stream } = request.response as unknown as Partial<Http2ServerResponse>;
    if (stream !== undefined) resetWithAnswer(stream);
    const deadline = startDeadline(takeTimeout(universal.header, request.call.protocol), maxStreamMs);
    const { signal } = universal;
    if (signal.aborted) deadline.end();
    else signal.addEventListener("abort", deadline.end, { once: true });
    const inlet = universal.contextValues?.get(kInlet);
    if (inlet === undefined) throw new Error("stream without an inlet");
    return handler({
      ...universal,
      signal: AbortSignal.any([signal, deadline.signal]),
      body: inlet.body(universal.body as AsyncIterable<Uint8Array>),
    });
  });
}
