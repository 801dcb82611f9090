import { performance } from "node:perf_hooks";
import { outsideConnections } from "../../base/connection.ts";

/** What the machine provides. */
export interface AdmissionMachine {
  /** Monotonic, in milliseconds. */
  readonly nowMs: () => number;
  /** Share of the time since the last question that the event loop was busy, 0 to 1. */
  readonly busyShare: () => number;
  /** Calls back after this turn of the event loop. */
  readonly nextTurn: (callback: () => void) => void;
  /** Calls back every so many milliseconds, without keeping the process; returns what ends that. */
  readonly every: (intervalMs: number, callback: () => void) => () => void;
}

/** The machine as it is. */
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
