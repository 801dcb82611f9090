/** Interceptors of the streaming services. */
import { ConnectError, type Interceptor } from "@connectrpc/connect";
import { ServiceError } from "../../base/errors.ts";
import { abortRefusal, deadlinePassed } from "../../http/deadline.ts";
import { callOf } from "../calls/call.ts";
import { fromProtocolError, toConnectError, toServiceError } from "../calls/errors.ts";

/** Outermost: an error that ends a stream leaves as any other refusal, and is noted for the log line. */
export function reportStreamErrors(service: string): Interceptor {
  return (next) => async (request) => {
    const { signal } = request;
    const restate = (thrown: unknown): ConnectError => {
      const call = callOf({ values: request.contextValues });
      call.refusal = refusalOf(thrown, signal);
      return toConnectError(service, call.requestId, call.refusal);
    };
    try {
      const response = await next(request);
      return response.stream ? { ...response, message: endInTime(response.message, signal, restate) } : response;
    } catch (thrown) {
      throw restate(thrown);
    }
  };
}

/** A body that the deadline cut off cannot be decoded either. */
function refusalOf(thrown: unknown, signal: AbortSignal): ServiceError {
  if (isPast(signal)) return deadlinePassed;
  // Work for a caller that has left rejects with the signal's reason.
  if (signal.aborted && (thrown === signal.reason || isAbort(thrown))) return abortRefusal(signal);
  const isOfProtocol = thrown instanceof ConnectError && !(thrown.cause instanceof ServiceError);
  return isOfProtocol ? fromProtocolError(thrown) : toServiceError(thrown);
}

function isAbort(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === "AbortError";
}

/** The deadline ends the messages early, which counts as an error. */
async function* endInTime<T>(
  messages: AsyncIterable<T>,
  signal: AbortSignal,
  restate: (thrown: unknown) => ConnectError,
): AsyncGenerator<T> {
  try {
    yield* messages;
    if (isPast(signal)) throw deadlinePassed;
  } catch (thrown) {
    throw restate(thrown);
  }
}

function isPast(signal: AbortSignal): boolean {
  return signal.aborted && abortRefusal(signal) === deadlinePassed;
}
