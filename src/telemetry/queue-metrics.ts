/** Metrics of what waits, by the stage at which it does. */
import { Gauge, Histogram, type Registry } from "prom-client";

/**
 * Where something waits for its turn: calls before anything is done for them, artifact objects for the thread that
 * hashes them, records for the write that makes them durable.
 */
export type QueueStage = "admission" | "artifact" | "append";

export interface QueueMetrics {
  /** From now on what this returns is shown as how many wait at the stage. */
  watchQueue(stage: QueueStage, depth: () => number): void;
  /** From now on what this returns is shown as how many calls have a place. */
  watchPlaces(places: () => number): void;
  /** The wait of one is over, and it goes on. */
  queueWaited(stage: QueueStage, waitedMs: number): void;
}

const waitSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];

/** Makes them in the registries. */
export function queueMetrics(registers: Registry[]): QueueMetrics {
  const depths = new Map<QueueStage, () => number>();
  new Gauge({
    name: "svc_queue_depth",
    help: "How many wait for their turn: calls (admission), objects to be hashed (artifact), records (append)",
    labelNames: ["stage"],
    registers,
    collect() {
      for (const [stage, depth] of depths) this.set({ stage }, depth());
    },
  });
  new Gauge({
    name: "svc_calls_waiting",
    help: "Calls that wait for their turn: svc_queue_depth of the stage admission, for autoscalers, which want no label",
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
    help: "Calls that have a place: they have begun, are not answered, and do not wait for their caller",
    registers,
    collect() {
      if (placesOf === undefined) this.remove();
      else this.set(placesOf());
    },
  });
  const waits = new Histogram({
    name: "svc_queue_wait_seconds",
    help: "Time that those waited who went on; none is 0",
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
