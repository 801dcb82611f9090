import { ServiceError } from "./errors.ts";

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
  /** The next party comes first; no set is empty. */
  const waiting = new Map<string, Set<() => void>>();
  let waits = 0;
  let taken = 0;

  async function turn(party: string, signal: AbortSignal): Promise<void> {
    if (taken < maximum) {
      taken += 1;
      return;
    }
    const own = waiting.get(party) ?? new Set();
    if (own.size >= maximumWaitingEach)
      throw new ServiceError("rate_limited", "too many calls of this kind are waiting", { retryAfterSeconds: 1 });
    if (waits >= maximumWaiting)
      throw new ServiceError("overloaded", "too many calls of this kind are waiting", { retryAfterSeconds: 1 });
    await new Promise<void>((resolve, reject) => {
      const onTurn = () => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      };
      const onAbort = () => {
        leave(party, own, onTurn);
        reject(signal.reason);
      };
      waiting.set(party, own.add(onTurn));
      waits += 1;
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }

  function leave(party: string, own: Set<() => void>, onTurn: () => void): void {
    own.delete(onTurn);
    waits -= 1;
    if (own.size === 0) waiting.delete(party);
  }

  /** Gives the slot to the oldest call of the next party. */
  function pass(): void {
    const [next] = waiting;
    if (next === undefined) {
      taken -= 1;
      return;
    }
    const [party, own] = next;
    const [onTurn] = own as Set<() => void> & [() => void];
    leave(party, own, onTurn);
    // Moves the party to the end.
    if (waiting.delete(party)) waiting.set(party, own);
    onTurn();
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
