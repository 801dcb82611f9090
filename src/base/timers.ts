import { outsideConnections } from "./outside-connections.ts";

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
