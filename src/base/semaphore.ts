import { ServiceError } from "./errors.ts";

/** Bounds work that costs much memory or time: so much at once, so much that waits, the rest is refused. */
export interface Semaphore {
  /**
   * Does the work when its turn has come, and answers as it does.
   * @param signal aborted while it waits: it is not done, and the call rejects with the signal's reason
   * @throws ServiceError `rate_limited` where too much waits already
   */
  run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T>;
}

/** Slots that several parties share: those who wait take turns, so that one who asks for much waits for itself. */
export interface FairSemaphore {
  /**
   * Does the work when its party's turn has come, as `Semaphore` does.
   * @throws ServiceError `rate_limited` where too much of this party waits already, `overloaded` where too much waits in all
   */
  run<T>(party: string, work: () => Promise<T>, signal: AbortSignal): Promise<T>;
}

export interface FairLimits {
  /** Work that is done at a time. */
  readonly maximum: number;
  /** Work of one party that waits. */
  readonly maximumWaitingEach: number;
  /** Work of all parties together that waits. */
  readonly maximumWaiting: number;
}

/** Slots that are given in the order in which they were asked for. */
export function createSemaphore(maximum: number, maximumWaiting: number): Semaphore {
  const slots = createFairSemaphore({ maximum, maximumWaitingEach: maximumWaiting, maximumWaiting });
  return { run: (work, signal) => slots.run("", work, signal) };
}

/** Slots that parties are given in turns, each in the order in which it asked. */
export function createFairSemaphore({ maximum, maximumWaitingEach, maximumWaiting }: FairLimits): FairSemaphore {
  /** The party whose turn it is comes first; no set is empty. */
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
      throw new ServiceError("rate_limited", "too many calls of this kind wait already", { retryAfterSeconds: 1 });
    if (waits >= maximumWaiting)
      throw new ServiceError("overloaded", "too many calls of this kind wait already", { retryAfterSeconds: 1 });
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

  /** Gives the slot to whoever of the next party waits for longest; it stays taken then. */
  function pass(): void {
    const [next] = waiting;
    if (next === undefined) {
      taken -= 1;
      return;
    }
    const [party, own] = next;
    const [onTurn] = own as Set<() => void> & [() => void];
    leave(party, own, onTurn);
    // Behind all others.
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
