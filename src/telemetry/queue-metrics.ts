/** Metrics of queues by stage. */
import { Gauge, Histogram, type Registry } from "prom-client";

/** Queues: calls before admission, artifact objects before hashing, records before the durable write. */
export type QueueStage = "admission" | "artifact" | "append";

export interface QueueMetrics {
  /** Sets the source of the queue's length. */
  watchQueue(stage: QueueStage, depth: () => number): void;
  /** Sets the source of the number of calls with a place. */
  watchPlaces(places: () => number): void;
  queueWaited(stage: QueueStage, waitedMs: number): void;
}

const waitSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];

export function queueMetrics(registers: Registry[]): QueueMetrics {
  const depths = new Map<QueueStage, () => number>();
  new Gauge({
    name: "svc_queue_depth",
    help: "Queue length: calls (admission), objects to be hashed (artifact), records (append)",
    labelNames: ["stage"],
    registers,
    collect() {
      for (const [stage, depth] of depths) this.set({ stage }, depth());
    },
  });
  new Gauge({
    name: "svc_calls_waiting",
    help: "Queued calls: svc_queue_depth of the stage admission without labels, for autoscalers",
    registers,
    collect() {
      const depth = depths.get("admission");
      if (depth === undefined) this.remove();
      else this.set(depth());
    },
  });
  let placesOf: (() => number) | undefined;
  new Gauge({
    name: "svc_calls_in_progress",
    help: "Calls in progress, without those that wait for their caller",
    registers,
    collect() {
      if (placesOf === undefined) this.remove();
      else this.set(placesOf());
    },
  });
  const waits = new Histogram({
    name: "svc_queue_wait_seconds",
    help: "Time in the queue; 0 without a wait",
    labelNames: ["stage"],
    buckets: waitSeconds,
    registers,
  });
  return {
    watchQueue: (stage, depth) => void depths.set(stage, depth),
    watchPlaces(places) {
      placesOf = places;
    },
    queueWaited: (stage, waitedMs) => waits.observe({ stage }, waitedMs / 1000),
  };
}
