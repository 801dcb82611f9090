import type { Clock } from "../../base/clock.ts";
import type { Sums } from "../../base/sums.ts";

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

/** @param permits counts, by periods of the clock, what others take too who keep to the same budget; absent where none do */
export function createRefetchBudget(size: number, refillMs: number, clock: Clock, permits?: Sums): RefetchBudget {
  let left = size;
  let firstTakenAtMs = 0;
  /** What was taken in the period of the clock that was the last one. */
  let taken = { period: "", permits: 0 };
  const takeOfAll = (now: number): boolean => {
    if (permits === undefined) return true;
    const period = String(Math.floor(now / refillMs));
    if (period !== taken.period) {
      permits.subtract(taken.period, taken.permits);
      taken = { period, permits: 0 };
    }
    if (!permits.add(period, 1, size)) return false;
    taken.permits += 1;
    return true;
  };
  return {
    take() {
      const now = clock.now();
      // A clock that went back ends the period too: better a fetch too many than none for hours.
      if (now - firstTakenAtMs >= refillMs || now < firstTakenAtMs) left = size;
      if (left === 0 || !takeOfAll(now)) return false;
      if (left === size) firstTakenAtMs = now;
      left -= 1;
      return true;
    },
    refillInMs: () => Math.min(refillMs, Math.max(1, firstTakenAtMs + refillMs - clock.now())),
  };
}
