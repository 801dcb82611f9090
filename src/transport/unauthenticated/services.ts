/** Services without credentials: health probes, and reflection for tools. They are outside the gate, without JSON routes. */
import type { FastifyInstance } from "fastify";
import type { InboundRequest } from "../../base/inbound-request.ts";
import { untilAborted } from "../../base/timers.ts";
import { startDeadline } from "../../http/deadline.ts";
import type { AdapterOptions } from "../calls/exchange.ts";
import { type ServiceBinding, unaryMethods } from "../calls/methods.ts";
import { conversationLimits, registerStreams, streamLimiter, watchLimits } from "../connect/streams.ts";
import { registerUnary } from "../connect/unary.ts";

/** Largest message of these services, in bytes: they take names. */
const maxMessageBytes = 4096;
/** Longest time in which a caller may send on one stream, in milliseconds. */
const maxConversationMs = 60_000;
interface UnauthenticatedServicesOptions extends Pick<AdapterOptions, "service" | "limits" | "bodies"> {
  /** Aborted when the server begins to stop: open streams are no longer read. */
  readonly stopping: AbortSignal;
  /** Returns the address of a call, as `callerAddress` does. */
  readonly addressOf: (inbound: InboundRequest) => string;
}

/** Serves the services on gRPC, gRPC-Web and Connect. */
export function registerUnauthenticated(
  app: FastifyInstance,
  services: readonly ServiceBinding[],
  options: UnauthenticatedServicesOptions,
): void {
  const { service, limits, bodies, stopping, addressOf } = options;
  const maxBodyBytes = () => maxMessageBytes;
  const open = { gate: async () => {}, checks: () => {} };
  registerUnary(app, services.flatMap(unaryMethods), { service, bodies, ...open, limits: { ...limits, maxBodyBytes } });
  const enterWatch = streamLimiter(watchLimits, addressOf);
  const enterConversation = streamLimiter(conversationLimits, addressOf);
  registerStreams(app, services, {
    service,
    handlerOptions: {},
    maxMessageBytes: maxBodyBytes,
    acceptsCompression: true,
    open({ request, method, body, deadline, onEnd }) {
      const isWatch = method.methodKind === "server_streaming";
      onEnd((isWatch ? enterWatch : enterConversation)(request));
      const reading = startDeadline(undefined, isWatch ? limits.bodyTimeoutMs : maxConversationMs);
      onEnd(reading.end);
      return bodyUntil(body, AbortSignal.any([stopping, reading.signal, deadline]));
    },
  });
}

/** Yields the body until it ends or the signal aborts. */
async function* bodyUntil(body: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const iterator = body[Symbol.asyncIterator]();
  try {
    while (!signal.aborted) {
      const { done, value } = await untilAborted(iterator.next(), signal, () => signal.reason as Error);
      if (done === true) return;
      yield value;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
