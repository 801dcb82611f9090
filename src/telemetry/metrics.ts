/** Counters and durations of one service, in a registry of its own. */
import { collectDefaultMetrics, Gauge, Registry } from "prom-client";
import { type Clock, systemClock } from "../base/clock.ts";
import { type CallMetrics, callMetrics } from "./call-metrics.ts";
import { type ExpiryMetrics, expiryMetrics } from "./expiry-metrics.ts";
import { type LedgerMetrics, ledgerMetrics } from "./ledger-metrics.ts";
import { type PolicyMetrics, policyMetrics } from "./policy-metrics.ts";
import { type QueueMetrics, queueMetrics } from "./queue-metrics.ts";
import { type QuotaMetrics, quotaMetrics } from "./quota-metrics.ts";
import { type ReloadMetrics, reloadMetrics } from "./reload-metrics.ts";
import { type TraceMetrics, traceMetrics } from "./trace-metrics.ts";

/** What a scraper gets. */
export interface Exposition {
  readonly contentType: string;
  readonly body: string;
}

/** What the rooms report. Every method is cheap and never throws. */
export interface Metrics
  extends CallMetrics,
    LedgerMetrics,
    PolicyMetrics,
    QueueMetrics,
    QuotaMetrics,
    ExpiryMetrics,
    ReloadMetrics,
    TraceMetrics {
  /** Text for a scraper, and its content type. */
  expose(): Promise<Exposition>;
  /** Every metric that there is, in order. */
  describe(): readonly MetricDescription[];
}

export interface MetricDescription {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram" | "summary";
  readonly help: string;
  readonly labels: readonly string[];
}

export interface MetricsOptions {
  /** Whether to measure memory, processor time, descriptors and collections too. These observers stay until the process ends. */
  readonly process: boolean;
  /** Version of the program, and of what runs it. */
  readonly build?: { readonly version: string; readonly node: string };
  readonly clock?: Clock;
}

/** Gauges of the library that are sums of others of its gauges, under names that only counters may have. */
const misnamed = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

/** Makes the metrics of one service. */
export function createMetrics({ process, build, clock = systemClock }: MetricsOptions): Metrics {
  const registry = new Registry();
  const registers = [registry];
  if (process) collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
  const info = new Gauge({
    name: "svc_build_info",
    help: "1 for the version that runs",
    labelNames: ["version", "node"],
    registers,
  });
  if (build !== undefined) info.set({ ...build }, 1);
  return {
    ...callMetrics(registers),
    ...ledgerMetrics(registers),
    ...policyMetrics(registers, clock),
    ...queueMetrics(registers),
    ...quotaMetrics(registers),
    ...expiryMetrics(registers, clock),
    ...traceMetrics(registers),
    ...reloadMetrics(registers),
    expose: async () => ({ contentType: registry.contentType, body: await registry.metrics() }),
    describe: () => registry.getMetricsAsArray().map(description),
  };
}

/** The library's types leave out the names of labels. */
function description(metric: object): MetricDescription {
  const { name, type, help, labelNames = [] } = metric as Omit<MetricDescription, "labels"> & { labelNames?: string[] };
  return { name, type, help, labels: labelNames.filter((label) => label !== "le") };
}
