/** Limits the open streams of callers, each of which holds memory. */
import type { FastifyRequest } from "fastify";
import { ServiceError } from "../../base/errors.ts";
import type { InboundRequest } from "../../base/inbound-request.ts";
import { neighbourhood } from "../../base/network.ts";
import { localSums } from "../../base/sums.ts";

export interface StreamLimits {
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

/** Counts a stream. Returns the function to call at its end. */
export type StreamLimiter = (request: FastifyRequest) => () => void;

/**
 * Refuses streams beyond the limits: `rate_limited` if the caller has too many, `overloaded` if all callers together
 * have.
 *
 * @param addressOf returns the address of a call, as `callerAddress` does
 */
export function streamLimiter(limits: StreamLimits, addressOf: (inbound: InboundRequest) => string): StreamLimiter {
  const open = localSums();
  const ofConnections = localSums();
  return (request) => {
    const address = addressOf(request.inbound);
    const shares = [
      [ofConnections, `${connectionNumber(request)} ${address}`, limits.perConnection],
      [open, address, limits.perAddress],
      [open, neighbourhood(address), limits.perNeighbourhood],
      [open, "all", limits.inAll],
    ] as const;
    const full = shares.findIndex(([sums, name, limit]) => !sums.add(name, 1, limit));
    const taken = full === -1 ? shares : shares.slice(0, full);
    const leave = () => {
      for (const [sums, name] of taken) sums.subtract(name, 1);
    };
    if (full === -1) return leave;
    leave();
    const reason = full === shares.length - 1 ? "overloaded" : "rate_limited";
    throw new ServiceError(reason, "too many streams are open", { retryAfterSeconds: 1 });
  };
}

const numbers = new WeakMap<object, number>();
let connections = 0;

function connectionNumber({ raw }: FastifyRequest): number {
  const { stream, socket } = raw as { stream?: { session?: object } } & typeof raw;
  const connection = stream?.session ?? socket;
  const number = numbers.get(connection) ?? ++connections;
  numbers.set(connection, number);
  return number;
}
