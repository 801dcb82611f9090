/** Timers that fire when the test says so. */
import type { Timers } from "../../../src/base/timers.ts";

export interface HandTimers extends Timers {
  readonly waiting: ReadonlyMap<() => void, number>;
  /** Fires what waits for this long. */
  fire(delayMs: number): void;
  /** Resolves when something waits. */
  armed(): Promise<void>;
}

export function handTimers(): HandTimers {
  const waiting = new Map<() => void, number>();
  let wake = Promise.withResolvers<void>();
  return {
    waiting,
    after(delayMs, action) {
      waiting.set(action, delayMs);
      wake.resolve();
      return () => waiting.delete(action);
    },
    fire(delayMs) {
      for (const [action, delay] of [...waiting]) {
        if (delay !== delayMs) continue;
        waiting.delete(action);
        wake = Promise.withResolvers();
        action();
      }
    },
    async armed() {
      while (waiting.size === 0) await wake.promise;
    },
  };
}
