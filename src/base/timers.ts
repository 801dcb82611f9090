import { outsideConnections } from "./connection.ts";

/** Delays, as a parameter: tests own them. */
export interface Timers {
  /** Runs the action once after `delayMs` milliseconds. The returned function calls it off; calling it twice is fine. */
  after(delayMs: number, action: () => void): () => void;
}

/** The runtime's timers. They do not keep a process alive that has nothing else to do. */
export const systemTimers: Timers = {
  after(delayMs, action) {
    // They are of long work that callers share, whoever set it off.
    const timer = setTimeout(() => outsideConnections(action), delayMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
};
