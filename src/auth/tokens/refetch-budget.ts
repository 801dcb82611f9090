import type { Clock } from "../../base/clock.ts";

/**
 * A bucket that holds `size` permits and is filled up again `refillMs` after the first one was taken: however many
 * tokens with invented key ids arrive, the issuer sees no more than `size` fetches in any such period.
 */
export interface RefetchBudget {
  /** Takes a permit; false where none is left. */
  take(): boolean;
  /** Milliseconds until it is filled up again; at least 1. */
  refillInMs(): number;
}

export function createRefetchBudget(size: number, refillMs: number, clock: Clock): RefetchBudget {
  let left = size;
  let firstTakenAtMs = 0;
  return {
    take() {
      const now = clock.now();
      // A clock that went back ends the period too: better a fetch too many than none for hours.
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
 * Resolves as the work does, which goes on for others whoever leaves; rejects with the refusal when the caller's
 * deadline comes first.
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
