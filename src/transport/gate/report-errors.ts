import type { Interceptor } from "@connectrpc/connect";
import { callOf } from "../calls/call.ts";
import { toConnectError, toServiceError } from "../calls/errors.ts";

/**
 * Outermost interceptor: whatever a handler or an inner interceptor throws becomes a refusal, is noted on the call
 * for the log line, and leaves as a Connect error with its details.
 */
export function reportErrors(service: string): Interceptor {
  return (next) => async (request) => {
    try {
      return await next(request);
    } catch (thrown) {
      const call = callOf({ values: request.contextValues });
      const refusal = toServiceError(thrown);
      call.refusal = refusal;
      throw toConnectError(service, call.requestId, refusal);
    }
  };
}
