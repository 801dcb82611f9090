/**
 * Time limits of calls: what the caller asks for, up to the server's maximum. The time starts when the headers are in,
 * so that it includes waiting for issuer keys, the body and the store.
 */
import { ServiceError } from "../base/errors.ts";
import { untilAborted } from "../base/timers.ts";

/** Shared abort reason: a new error per call would cost a stack trace each. */
export const deadlinePassed = new ServiceError("deadline_exceeded", "the deadline has passed");
/** Shared abort reason for callers that disconnect. */
export const callerGone = new ServiceError("canceled", "the caller canceled the call");

export type Deadline = ReturnType<typeof startDeadline>;

/** Starts a call's time limit. `requestedMs` is the caller's; `waitedMs` has passed since the headers. */
export function startDeadline(requestedMs: number | undefined, maximumMs: number, waitedMs = 0) {
  const controller = new AbortController();
  const limitMs = Math.max(0, Math.min(requestedMs ?? maximumMs, maximumMs) - waitedMs);
  const expiresAt = requestedMs === undefined ? undefined : performance.now() + requestedMs - waitedMs;
  const timer = setTimeout(() => controller.abort(deadlinePassed), limitMs);
  // A timer never fires at once: a call without time left might be answered without this.
  if (limitMs === 0) controller.abort(deadlinePassed);
  return {
    /** Aborted with `deadlinePassed` or `callerGone`. */
    signal: controller.signal,
    /** Milliseconds left; undefined if the caller set no limit. */
    timeoutMs: () => (expiresAt === undefined ? undefined : expiresAt - performance.now()),
    /** Aborts because the caller went away. */
    cancel: () => controller.abort(callerGone),
    /** Releases the timer. */
    end: () => clearTimeout(timer),
  };
}

/** Returns the refusal behind an aborted signal. */
export function abortRefusal(signal: AbortSignal): ServiceError {
  const { reason } = signal as { reason: unknown };
  return reason instanceof ServiceError ? reason : callerGone;
}

/** Settles as the work does, or rejects with the signal's refusal when it aborts. May not start the work. */
export function withinDeadline<T>(start: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const refusal = () => abortRefusal(signal);
  return signal.aborted ? Promise.reject(refusal()) : untilAborted(start(), signal, refusal);
}
