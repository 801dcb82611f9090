/**
 * How long a call may take: what the caller asks for, at most the server's maximum. It runs from the moment the
 * headers are in, so that waiting for issuer keys, for the body and for the store all count.
 */
import { ServiceError } from "../../base/errors.ts";

/** The one reason that deadlines abort with: making an error for each call would cost a stack trace each. */
export const deadlinePassed = new ServiceError("deadline_exceeded", "the deadline has passed");
/** The one reason that a caller's going away aborts with. */
export const callerGone = new ServiceError("canceled", "the caller canceled the call");

/** The time limit of one call. */
export interface Deadline {
  /** Aborted with `deadlinePassed` or `callerGone`. */
  readonly signal: AbortSignal;
  /** Milliseconds left, or undefined where the caller set no limit. */
  readonly timeoutMs: () => number | undefined;
  /** The caller went away. */
  cancel(): void;
  /** The call is over; releases the timer. */
  end(): void;
}

/**
 * Starts the clock of a call. `requestedMs` is the caller's own limit, if it sent one; `waitedMs` is what has passed
 * already since the headers were in.
 */
export function startDeadline(requestedMs: number | undefined, maximumMs: number, waitedMs = 0): Deadline {
  const controller = new AbortController();
  const limitMs = Math.max(0, Math.min(requestedMs ?? maximumMs, maximumMs) - waitedMs);
  const expiresAt = requestedMs === undefined ? undefined : performance.now() + requestedMs - waitedMs;
  const timer = setTimeout(() => controller.abort(deadlinePassed), limitMs);
  // A timer never fires at once: without this, a call without any time left might be answered.
  if (limitMs === 0) controller.abort(deadlinePassed);
  return {
    signal: controller.signal,
    timeoutMs: () => (expiresAt === undefined ? undefined : expiresAt - performance.now()),
    cancel: () => controller.abort(callerGone),
    end: () => clearTimeout(timer),
  };
}

/** The refusal behind an aborted signal. */
export function abortRefusal(signal: AbortSignal): ServiceError {
  const { reason } = signal as { reason: unknown };
  if (reason instanceof ServiceError) return reason;
  // Connect aborts with its own error when a client's `grpc-timeout` or `connect-timeout-ms` passes.
  const expired = reason instanceof Error && /deadline|timeout/i.test(reason.message);
  return expired ? deadlinePassed : callerGone;
}

/**
 * Starts the work and settles as it does, or rejects with the refusal behind the signal as soon as that is aborted.
 * Work whose time is up already is not started.
 */
export function withinDeadline<T>(start: () => Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    if (signal.aborted) throw abortRefusal(signal);
    const work = start();
    const onAbort = () => reject(abortRefusal(signal));
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(
      (value) => {
        signal.removeEventListener("abort", onAbort);
        resolve(value);
      },
      (error: unknown) => {
        signal.removeEventListener("abort", onAbort);
        reject(error);
      },
    );
  });
}
