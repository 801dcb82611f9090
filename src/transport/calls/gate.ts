/**
 * The gate: what every call passes after its headers are in and before a byte of its body is read, in the same order on
 * every protocol. `gate/chain.ts` has its links and their order.
 */
import type { InboundRequest } from "../../base/inbound-request.ts";
import type { Accounts } from "../../http/accounts.ts";
import type { Call } from "./call.ts";
import { toServiceError } from "./refusals.ts";

export interface GateContext {
  readonly call: Call;
  /** The request as the network delivered it: headers and peer. */
  readonly inbound: InboundRequest;
  /** `Service/Method`. */
  readonly rpc: string;
  /** Aborted when the deadline passes or the caller goes away. */
  readonly signal: AbortSignal;
}

/** One link. Throws a `ServiceError` to refuse. */
export type GateLink = (context: GateContext) => void | Promise<void>;

/** Runs the links in order. Rejects with a `ServiceError`, which it also notes on the call. */
export type Gate = (context: GateContext) => Promise<void>;

export function createGate(links: readonly GateLink[]): Gate {
  return async (context) => {
    try {
      for (const link of links) {
        const pending = link(context);
        if (pending !== undefined) await pending;
      }
    } catch (thrown) {
      const refusal = toServiceError(thrown);
      context.call.refusal = refusal;
      throw refusal;
    }
  };
}

/** Wraps the gate: after it, the call counts for the tenant of its credentials. */
export function countCaller(gate: Gate, accounts: Pick<Accounts, "recognize">): Gate {
  return async (context) => {
    try {
      await gate(context);
    } finally {
      const { call, inbound } = context;
      if (call.caller !== undefined) {
        call.ticket?.belongsTo(call.caller.tenantId);
        accounts.recognize(inbound, call.caller.tenantId);
      }
    }
  };
}
