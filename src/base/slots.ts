import { ServiceError } from "./errors.ts";

/** Bounds work that costs much memory or time: so much at once, so much that waits, the rest is refused. */
export interface Slots {
  /**
   * Does the work when its turn has come, and answers as it does.
   * @param signal aborted while it waits: it is not done, and the call rejects with the signal's reason
   * @throws ServiceError `rate_limited` where too much waits already
   */
  run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T>;
}

/** Slots that are given in the order in which they were asked for. */
export function createSlots(maximum: number, maximumWaiting: number): Slots {
  const waiting = new Set<() => void>();
  let taken = 0;

  async function turn(signal: AbortSignal): Promise<void> {
    if (taken < maximum) {
      taken += 1;
      return;
    }
    if (waiting.size >= maximumWaiting) {
      throw new ServiceError("rate_limited", "too many calls of this kind wait already", { retryAfterSeconds: 1 });
    }
    await new Promise<void>((resolve, reject) => {
      const onTurn = () => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      };
      const onAbort = () => {
        waiting.delete(onTurn);
        reject(signal.reason);
      };
      waiting.add(onTurn);
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }

  /** Gives the slot to whoever waits for longest; it stays taken then. */
  function pass(): void {
    const [next] = waiting;
    if (next === undefined) {
      taken -= 1;
      return;
    }
    waiting.delete(next);
    next();
  }

  return {
    async run(work, signal) {
      signal.throwIfAborted();
      await turn(signal);
      try {
        return await work();
      } finally {
        pass();
      }
    },
  };
}
