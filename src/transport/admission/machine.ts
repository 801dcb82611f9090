import { performance } from "node:perf_hooks";
import { outsideConnections } from "../../base/connection.ts";
import type { AdmissionMachine } from "./admission.ts";

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
