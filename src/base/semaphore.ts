import { ServiceError } from "./errors.ts";
import { FairQueue, type Waiter } from "./fair-queue.ts";

/** Bounds expensive work: a number of concurrent calls and of waiting ones; more are refused. */
export interface Semaphore {
  /**
   * Does the work in its turn, and settles as it does.
   * @param signal if aborted while it waits, the work is not done, and the call rejects with the signal's reason
   * @throws ServiceError `rate_limited` if too many wait
   */
  run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T>;
}

/** Slots shared by several parties in turns, so that one party's load only delays itself. */
export interface FairSemaphore {
  /**
   * Does the work in its party's turn, as `Semaphore` does.
   * @throws ServiceError `rate_limited` if too many of this party wait, `overloaded` if too many wait in total
   */
  run<T>(party: string, work: () => Promise<T>, signal: AbortSignal): Promise<T>;
}

export interface FairLimits {
  readonly maximum: number;
  /** Waiting work of one party. */
  readonly maximumWaitingEach: number;
  /** Waiting work of all parties. */
  readonly maximumWaiting: number;
}

/** Creates a semaphore that serves calls in order. */
export function createSemaphore(maximum: number, maximumWaiting: number): Semaphore {
  const slots = createFairSemaphore({ maximum, maximumWaitingEach: maximumWaiting, maximumWaiting });
  return { run: (work, signal) => slots.run("", work, signal) };
}

/** Creates a semaphore that serves parties in turns, each in order. */
export function createFairSemaphore({ maximum, maximumWaitingEach, maximumWaiting }: FairLimits): FairSemaphore {
  const queue = new FairQueue<Waiter & { readonly onTurn: () => void }>();
  let taken = 0;

  async function turn(party: string, signal: AbortSignal): Promise<void> {
    if (taken < maximum) {
      taken += 1;
      return;
    }
    if (queue.sizeOf(party) >= maximumWaitingEach)
      throw new ServiceError("rate_limited", "too many calls of this kind are waiting", { retryAfterSeconds: 1 });
    if (queue.size >= maximumWaiting)
      throw new ServiceError("overloaded", "too many calls of this kind are waiting", { retryAfterSeconds: 1 });
    await new Promise<void>((resolve, reject) => {
      const onAbort = () => {
        queue.delete(waiter);
        reject(signal.reason);
      };
      const onTurn = () => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      };
      const waiter = { account: { group: party, member: "" }, onTurn };
      queue.add(waiter);
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }

  /** Gives the slot to the oldest call of the next party. */
  function pass(): void {
    const next = queue.take();
    if (next === undefined) taken -= 1;
    else next.onTurn();
  }

  return {
    async run(party, work, signal) {
      signal.throwIfAborted();
      await turn(party, signal);
      try {
        return await work();
      } finally {
        pass();
      }
    },
  };
}
