/** Delays, and work in short steps. */
import { AsyncLocalStorage } from "node:async_hooks";
import { setImmediate } from "node:timers/promises";

/** Delays; tests replace them. */
export interface Timers {
  /** Runs the action once after `delayMs` milliseconds. The returned function cancels it. Idempotent. */
  after(delayMs: number, action: () => void): () => void;
}

/** The runtime's timers. They do not keep the process alive. */
export const systemTimers: Timers = {
  after(delayMs, action) {
    // Timers serve shared work, so they run outside connections.
    const timer = setTimeout(() => outsideConnections(action), delayMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** Runs shared work outside of the connection that started it: its errors end no connection. */
export const outsideConnections = AsyncLocalStorage.snapshot();

export function atOnce<T>(steps: Generator<undefined, T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Does one step per turn of the event loop. */
export async function inTurns<T>(steps: Generator<undefined, T>): Promise<T> {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    await setImmediate();
  }
}
