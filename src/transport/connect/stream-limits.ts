/**
 * How many streams may be open at once of those that need no credentials: each holds memory for as long, and whoever
 * opens many must not keep the others out.
 */
import type { Interceptor } from "@connectrpc/connect";
import type { FastifyRequest } from "fastify";
import type { InboundRequest } from "../../auth/inbound-request.ts";
import { ServiceError } from "../../base/errors.ts";
import { neighbourhood } from "../../base/network.ts";
import { localSums } from "../../base/sums.ts";
import { kRequest } from "../calls/exchange.ts";

/** Streams that may be open at once. */
export interface StreamLimits {
  /** Of one caller on one connection, which may carry those of many where it is the ingress's. */
  readonly perConnection: number;
  /** Of one address, an IPv6 block of /64 counting as one. */
  readonly perAddress: number;
  /** Of addresses that one party is likely to hold: IPv4 by /24, IPv6 by /48. */
  readonly perNeighbourhood: number;
  readonly inAll: number;
}

/** For those who watch: one for each channel of a client is what they need. */
export const watchLimits: StreamLimits = { perConnection: 16, perAddress: 64, perNeighbourhood: 256, inAll: 1024 };
/** For conversations, which are short. */
export const conversationLimits: StreamLimits = { perConnection: 4, perAddress: 16, perNeighbourhood: 64, inAll: 256 };

/**
 * Refuses streams beyond the limits: `rate_limited` where the caller has too many, `overloaded` where all have.
 *
 * @param addressOf address that a call comes from, as `callerAddress` returns it
 */
export function limitStreams(limits: StreamLimits, addressOf: (inbound: InboundRequest) => string): Interceptor {
  const open = localSums();
  const ofConnections = localSums();
  return (next) => async (request) => {
    const incoming = request.contextValues.get(kRequest);
    if (incoming === undefined) throw new Error("call without a request");
    const address = addressOf(incoming.inbound);
    const shares = [
      [ofConnections, `${connectionNumber(incoming)} ${address}`, limits.perConnection],
      [open, address, limits.perAddress],
      [open, neighbourhood(address), limits.perNeighbourhood],
      [open, "all", limits.inAll],
    ] as const;
    const full = shares.findIndex(([sums, name, limit]) => !sums.add(name, 1, limit));
    const leave = (taken: readonly (typeof shares)[number][]) => {
      for (const [sums, name] of taken) sums.subtract(name, 1);
    };
    if (full !== -1) {
      leave(shares.slice(0, full));
      const reason = full === shares.length - 1 ? "overloaded" : "rate_limited";
      throw new ServiceError(reason, "too many streams are open", { retryAfterSeconds: 1 });
    }
    // The context of a call is aborted when the call is over, however it ends.
    request.signal.addEventListener("abort", () => leave(shares), { once: true });
    if (request.signal.aborted) leave(shares);
    return next(request);
  };
}

const numbers = new WeakMap<object, number>();
let connections = 0;

/** A number of its own for each connection. */
function connectionNumber({ raw }: FastifyRequest): number {
  const { stream, socket } = raw as { stream?: { session?: object } } & typeof raw;
  const connection = stream?.session ?? socket;
  const number = numbers.get(connection) ?? ++connections;
  numbers.set(connection, number);
  return number;
}
