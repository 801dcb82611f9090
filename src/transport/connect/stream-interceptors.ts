/** Interceptors of the services that stream, which the gate's chain does not know. */
import { ConnectError, type Interceptor } from "@connectrpc/connect";
import { ServiceError } from "../../base/errors.ts";
import { callOf } from "../calls/call.ts";
import { abortRefusal, deadlinePassed } from "../calls/deadline.ts";
import { fromProtocolError, toConnectError, toServiceError } from "../calls/errors.ts";

/**
 * Outermost: whatever ends a stream with an error, a message that could not be decoded too, leaves as any other
 * refusal does and is noted on the call for the log line.
 */
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

/** A body that is cut off by the deadline cannot be decoded either. */
function refusalOf(thrown: unknown, signal: AbortSignal): ServiceError {
  if (isPast(signal)) return deadlinePassed;
  // What was under way for a caller who has left ends with the signal's own reason, whatever that is.
  if (signal.aborted && (thrown === signal.reason || isAbort(thrown))) return abortRefusal(signal);
  const isOfProtocol = thrown instanceof ConnectError && !(thrown.cause instanceof ServiceError);
  return isOfProtocol ? fromProtocolError(thrown) : toServiceError(thrown);
}

function isAbort(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === "AbortError";
}

/** The deadline ends the messages, which is no good end. */
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
