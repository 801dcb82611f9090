import { createContextKey, createContextValues, type Transport } from "@connectrpc/connect";
import { PlatformError } from "./problem.ts";

/** When a call must end, in milliseconds of `performance.now()`. */
export const deadlineKey = createContextKey(Number.POSITIVE_INFINITY, { description: "deadline of the call" });

/** Limits each call, and passes the deadline to interceptors; calls reject with a `PlatformError`. */
export function withDeadline(transport: Transport, deadlineMs: number): Transport {
  return {
    async unary(method, signal, timeoutMs = deadlineMs, header, input, contextValues = createContextValues()) {
      contextValues.set(deadlineKey, performance.now() + timeoutMs);
      try {
        return await transport.unary(method, signal, timeoutMs, header, input, contextValues);
      } catch (error) {
        throw PlatformError.from(error);
      }
    },
    stream: (...call) => transport.stream(...call),
  };
}
