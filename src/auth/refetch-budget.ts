import type { Clock } from "../base/clock.ts";

/**
 * A bucket of `size` permits that refills `refillMs` after the first was taken. However many tokens with invented key
 * ids arrive, the issuer sees at most `size` fetches per period.
 */
export interface RefetchBudget {
  /** Takes a permit; false if none is left. */
  take(): boolean;
  /** Milliseconds until the refill; at least 1. */
  refillInMs(): number;
}

export function createRefetchBudget(size: number, refillMs: number, clock: Clock): RefetchBudget {
  let left = size;
  let firstTakenAtMs = 0;
  return {
    take() {
      const now = clock.now();
      // If the clock goes back, the period ends: an extra fetch is better than none for hours.
      if (now - firstTakenAtMs >= refillMs || now < firstTakenAtMs) left = size;
      if (left === 0) return false;
      if (left === size) firstTakenAtMs = now;
      left -= 1;
      return true;
    },
    refillInMs: () => Math.min(refillMs, Math.max(1, firstTakenAtMs + refillMs - clock.now())),
  };
}

/**
 * Resolves as the work does; rejects with the refusal when the signal aborts first. The work continues for other
 * callers.
 * @param work never rejects
 */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal, refusal: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(refusal());
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    void work.then((value) => {
      signal.removeEventListener("abort", onAbort);
      resolve(value);
    });
  });
}
