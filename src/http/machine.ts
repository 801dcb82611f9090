import { performance } from "node:perf_hooks";
import { outsideConnections } from "../base/outside-connections.ts";

/** What admission needs from the machine. */
export interface AdmissionMachine {
  /** Monotonic clock in milliseconds. */
  readonly nowMs: () => number;
  /** Event loop utilization since the last call, 0 to 1. */
  readonly busyShare: () => number;
  /** Runs the callback after this turn of the event loop. */
  readonly nextTurn: (callback: () => void) => void;
  /** Runs the callback at an interval that does not keep the process alive; returns a function that stops it. */
  readonly every: (intervalMs: number, callback: () => void) => () => void;
}

export function admissionMachine(): AdmissionMachine {
  let since = performance.eventLoopUtilization();
  return {
    nowMs: () => performance.now(),
    busyShare: () => {
      const now = performance.eventLoopUtilization();
      const { utilization } = performance.eventLoopUtilization(now, since);
      since = now;
      return utilization;
    },
    nextTurn: (callback) => void outsideConnections(setImmediate, callback),
    every: (intervalMs, callback) => {
      const timer = outsideConnections(setInterval, callback, intervalMs).unref();
      return () => clearInterval(timer);
    },
  };
}
