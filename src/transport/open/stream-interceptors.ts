/** Interceptors of the services that stream, which the gate's chain does not know. */
import { ConnectError, type Interceptor } from "@connectrpc/connect";
import { ServiceError } from "../../base/errors.ts";
import { callOf } from "../call.ts";
import { fromProtocolError, toConnectError, toServiceError } from "../errors.ts";

/**
 * Outermost: whatever ends a stream with an error, a message that could not be decoded too, leaves as any other
 * refusal does and is noted on the call for the log line.
 */
export function reportStreamErrors(service: string): Interceptor {
  return (next) => async (request) => {
    const restate = (thrown: unknown): ConnectError => {
      const call = callOf({ values: request.contextValues });
      const ours = thrown instanceof ConnectError && !(thrown.cause instanceof ServiceError);
      call.refusal = ours ? fromProtocolError(thrown) : toServiceError(thrown);
      return toConnectError(service, call.requestId, call.refusal);
    };
    try {
      const response = await next(request);
      return response.stream ? { ...response, message: mapError(response.message, restate) } : response;
    } catch (thrown) {
      throw restate(thrown);
    }
  };
}

async function* mapError<T>(messages: AsyncIterable<T>, restate: (thrown: unknown) => ConnectError) {
  try {
    yield* messages;
  } catch (thrown) {
    throw restate(thrown);
  }
}

/** Keeps at most so many streams open at once: they need no credentials, and each holds memory for as long. */
export function limitStreams(maxStreams: number): Interceptor {
  let open = 0;
  return (next) => async (request) => {
    if (!request.stream) return next(request);
    if (open >= maxStreams) {
      throw new ServiceError("rate_limited", "too many streams are open", { retryAfterSeconds: 1 });
    }
    open += 1;
    // The context of a call is aborted when the call is over, however it ends.
    const close = () => {
      open -= 1;
    };
    request.signal.addEventListener("abort", close, { once: true });
    return next(request);
  };
}
