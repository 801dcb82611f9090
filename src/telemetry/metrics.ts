/** Counters and durations of one service, in a registry of its own. */
import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";
import { type Clock, systemClock } from "../base/clock.ts";
import { type CallMetrics, callMetrics } from "./call-metrics.ts";
import { type ExpiryMetrics, expiryMetrics } from "./expiry-metrics.ts";
import { type LedgerMetrics, ledgerMetrics } from "./ledger-metrics.ts";
import { type PolicyMetrics, policyMetrics } from "./policy-metrics.ts";
import { type QueueMetrics, queueMetrics } from "./queue-metrics.ts";
import type { SpanOutcome } from "./tracing/tracing.ts";

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

interface QuotaMetrics {
  /** What came of a call, or of asking the store for a portion. */
  quotaEvent(quota: string, event: "refused" | "uncounted" | "leased" | "lease_failed"): void;
}

/** Makes them in the registries. */
function quotaMetrics(registers: Registry[]): QuotaMetrics {
  const calls = new Counter({
    name: "svc_quota_calls_total",
    help: "Calls that were refused for a tenant's quota, or let through uncounted while the store was down",
    labelNames: ["quota", "result"],
    registers,
  });
  const portions = new Counter({
    name: "svc_quota_portions_total",
    help: "Portions of tenants' quotas that were asked of the store",
    labelNames: ["quota", "result"],
    registers,
  });
  return {
    quotaEvent(quota, event) {
      if (event === "refused" || event === "uncounted") calls.inc({ quota, result: event });
      else portions.inc({ quota, result: event === "leased" ? "ok" : "failed" });
    },
  };
}

/** What became of a change that a running service was to take up. */
type ReloadOutcome = "taken" | "refused" | "failed";

interface ReloadMetrics {
  /** Files of this kind, or a policy directory, are followed, and what they say is in force. */
  followed(what: string): void;
  /** A change of what is followed came into force; was refused; or could not be taken now, and is tried again. */
  reloaded(what: string, outcome: ReloadOutcome): void;
}

/** Makes them in the registries. */
function reloadMetrics(registers: Registry[]): ReloadMetrics {
  const reloads = new Counter({
    name: "svc_reloads_total",
    help: "Changed files and policy directories that came into force, were refused, or could not be taken at the time",
    labelNames: ["what", "outcome"],
    registers,
  });
  const stale = new Gauge({
    name: "svc_reload_stale",
    help: "1 where the newest content of what is followed is not in force",
    labelNames: ["what"],
    registers,
  });
  return {
    followed(what) {
      for (const outcome of ["taken", "refused"]) reloads.inc({ what, outcome }, 0);
      stale.set({ what }, 0);
    },
    reloaded(what, outcome) {
      reloads.inc({ what, outcome });
      stale.set({ what }, outcome === "taken" ? 0 : 1);
    },
  };
}

interface TraceMetrics {
  /** Spans of traces were dealt with. */
  spansHandled(outcome: SpanOutcome, count: number): void;
}

/** Makes them in the registries. */
function traceMetrics(registers: Registry[]): TraceMetrics {
  const spans = new Counter({
    name: "svc_trace_spans_total",
    help: "Spans of traces that were exported, dropped for want of room in the queue, or not taken by the collector",
    labelNames: ["result"],
    registers,
  });
  return { spansHandled: (result, count) => spans.inc({ result }, count) };
}
