/** Slots that all workers share, given out in the main thread: see `FairSemaphore`. */
import type { FairSemaphore } from "../../base/semaphore.ts";
import type { Peer } from "./peer.ts";
import type { MainCalls, WorkerCalls } from "./protocol.ts";

/** The slots of one worker, in the main thread. */
export class LentSlots {
  readonly #slots: FairSemaphore;
  readonly #held = new Map<number, AbortController>();

  constructor(slots: FairSemaphore) {
    this.#slots = slots;
  }

  /** Resolves when there is one; rejects as the semaphore does. It is taken until `leave`. */
  take(party: string, slot: number): Promise<void> {
    const left = new AbortController();
    this.#held.set(slot, left);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const whileHeld = () =>
      new Promise<void>((done) => {
        left.signal.addEventListener("abort", () => done(), { once: true });
        resolve();
      });
    this.#slots.run(party, whileHeld, left.signal).catch((error: unknown) => {
      this.#held.delete(slot);
      reject(error);
    });
    return promise;
  }

  leave(slot: number): void {
    this.#held.get(slot)?.abort();
    this.#held.delete(slot);
  }

  /** The worker is no more. */
  leaveAll(): void {
    for (const slot of this.#held.keys()) this.leave(slot);
  }
}

/** The same slots, in a worker. */
export function borrowedSlots(main: Peer<MainCalls, WorkerCalls>): FairSemaphore {
  let last = 0;
  return {
    async run(party, work, signal) {
      signal.throwIfAborted();
      const slot = ++last;
      const leave = () => main.tell("leaveSlot", slot);
      // Once there, it is kept until the work is done, whoever waits for that.
      signal.addEventListener("abort", leave, { once: true });
      await main
        .ask("takeSlot", party, slot)
        .catch((error: unknown) => {
          signal.throwIfAborted();
          throw error;
        })
        .finally(() => signal.removeEventListener("abort", leave));
      try {
        signal.throwIfAborted();
        return await work();
      } finally {
        leave();
      }
    },
  };
}
