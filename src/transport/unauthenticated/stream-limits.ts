/**
 * How many streams may be open at once of those that need no credentials: each holds memory for as long, and whoever
 * opens many must not keep the others out.
 */
import type { Interceptor } from "@connectrpc/connect";
import type { FastifyRequest } from "fastify";
import type { InboundRequest } from "../../auth/inbound-request.ts";
import { ServiceError } from "../../base/errors.ts";
import { neighbourhood } from "../../base/network.ts";
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
  const open = new Map<string, number>();
  let inAll = 0;
  return (next) => async (request) => {
    const incoming = request.contextValues.get(kRequest);
    if (incoming === undefined) throw new Error("call without a request");
    const address = addressOf(incoming.inbound);
    const shares = [
      [`${connectionNumber(incoming)} ${address}`, limits.perConnection],
      [address, limits.perAddress],
      [neighbourhood(address), limits.perNeighbourhood],
    ] as const;
    if (shares.some(([name, limit]) => (open.get(name) ?? 0) >= limit))
      throw new ServiceError("rate_limited", "too many streams are open", { retryAfterSeconds: 1 });
    if (inAll >= limits.inAll)
      throw new ServiceError("overloaded", "too many streams are open", { retryAfterSeconds: 1 });
    const count = (by: 1 | -1) => {
      inAll += by;
      for (const [name] of shares) {
        const now = (open.get(name) ?? 0) + by;
        if (now === 0) open.delete(name);
        else open.set(name, now);
      }
    };
    count(1);
    // The context of a call is aborted when the call is over, however it ends.
    request.signal.addEventListener("abort", () => count(-1), { once: true });
    if (request.signal.aborted) count(-1);
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
