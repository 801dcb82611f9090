/** Retries: only what may be retried, no sooner than the service asks, and with growing pauses. */
import { Code, ConnectError, createContextKey, type Interceptor } from "@connectrpc/connect";
import { deadlineKey } from "./deadline.ts";
import { attemptError, type Problem, problemOf } from "./problem.ts";

export interface RetryOptions {
  /** Most attempts, the first included; infinity if only the deadline limits them. Default 4. */
  readonly attempts?: number;
  /** Longest pause before the second attempt, in milliseconds; it doubles with each. Default 100. */
  readonly baseDelayMs?: number;
  /** Longest pause of the client's own choice, in milliseconds. Default 5,000. */
  readonly maxDelayMs?: number;
  /** Longest pause that the service may ask for, in milliseconds; for a longer one the call fails. Default 60,000. */
  readonly maxRetryAfterMs?: number;
  /** Called before each pause, in milliseconds. */
  readonly onRetry?: (problem: Problem, delayMs: number) => void;
  /** A number from 0 up to 1. Default `Math.random`. */
  readonly random?: () => number;
  /** Resolves after so many milliseconds; rejects when the signal aborts. */
  readonly pause?: (delayMs: number, signal: AbortSignal) => Promise<void>;
}

/**
 * Retries calls that the service could not answer now (`unavailable`), that it asked to retry (`RetryInfo` or
 * `Retry-After`), or whose connection broke. The pause is random up to a bound that doubles, and never shorter than
 * what the service asks for. The call's own deadline covers all attempts: if a pause would outlast it, the call fails
 * with the last error.
 *
 * A decision whose answer was lost is made and recorded again; registrations and events have an idempotency key and are
 * recorded once.
 */
export function retry(options: RetryOptions = {}): Interceptor {
  const { attempts = 4, pause = systemPause } = options;
  return (next) => async (request) => {
    if (request.stream) {
      request.contextValues.set(streamRetryKey, options);
      return next(request);
    }
    for (let attempt = 1; ; attempt++) {
      try {
        return await next(request);
      } catch (thrown) {
        const error = attemptError(thrown, request.signal);
        const delayMs = attempt < attempts ? delayAfter(error, attempt, options) : undefined;
        if (delayMs === undefined || request.signal.aborted) throw error;
        if (performance.now() + delayMs >= request.contextValues.get(deadlineKey)) throw error;
        options.onRetry?.(problemOf(error), delayMs);
        await pause(delayMs, request.signal);
      }
    }
  };
}

/** Options for reopening a stream: only its opener can repeat what was sent. */
export const streamRetryKey = createContextKey<RetryOptions | undefined>(undefined, { description: "retries" });

/** Milliseconds to wait after the n-th failed attempt; undefined if a retry would not help. */
export function delayAfter(error: ConnectError, attempt: number, options: RetryOptions): number | undefined {
  const { baseDelayMs = 100, maxDelayMs = 5_000, maxRetryAfterMs = 60_000, random = Math.random } = options;
  const { retryAfterMs = 0 } = problemOf(error);
  if (!mayRetry(error, retryAfterMs) || retryAfterMs > maxRetryAfterMs) return undefined;
  const boundMs = Math.min(maxDelayMs, baseDelayMs * 2 ** (attempt - 1));
  // Spreads callers that must all wait the same time.
  return retryAfterMs + boundMs * random();
}

function mayRetry({ code }: ConnectError, retryAfterMs: number): boolean {
  return code === Code.Unavailable || (code === Code.ResourceExhausted && retryAfterMs > 0);
}

export function systemPause(delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      clearTimeout(timer);
      reject(ConnectError.from(signal.reason, Code.Canceled));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", onAbort);
      resolve();
    }, delayMs);
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
  });
}
