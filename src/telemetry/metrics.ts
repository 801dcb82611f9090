/** Metrics of one service, in their own registry. */
import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";
import { type Clock, systemClock } from "../base/clock.ts";
import { type CallMetrics, callMetrics } from "./call-metrics.ts";
import { type ExpiryMetrics, expiryMetrics } from "./expiry-metrics.ts";
import { type LedgerMetrics, ledgerMetrics } from "./ledger-metrics.ts";
import { type PolicyMetrics, policyMetrics } from "./policy-metrics.ts";
import { type QueueMetrics, queueMetrics } from "./queue-metrics.ts";
import type { SpanOutcome } from "./tracing.ts";

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
  /** Returns the text for a scraper and its content type. */
  expose(): Promise<Exposition>;
  /** Lists all metrics in order. */
  describe(): readonly MetricDescription[];
}

export interface MetricDescription {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram" | "summary";
  readonly help: string;
  readonly labels: readonly string[];
}

export interface MetricsOptions {
  /** Whether to measure the process too: memory, CPU, descriptors, garbage collections; until it ends. */
  readonly process: boolean;
  readonly build?: { readonly version: string; readonly node: string };
  readonly clock?: Clock;
}

/** Gauges of the library that duplicate others, under names reserved for counters. */
const misnamed = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

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

/** The library's types lack label names. */
function description(metric: object): MetricDescription {
  const { name, type, help, labelNames = [] } = metric as Omit<MetricDescription, "labels"> & { labelNames?: string[] };
  return { name, type, help, labels: labelNames.filter((label) => label !== "le") };
}

interface QuotaMetrics {
  /** Counts the result of a call, or of a lease from the store. */
  quotaEvent(quota: string, event: "refused" | "uncounted" | "leased" | "lease_failed"): void;
}

function quotaMetrics(registers: Registry[]): QuotaMetrics {
  const calls = new Counter({
    name: "svc_quota_calls_total",
    help: "Calls refused for a tenant's quota, or admitted uncounted while the store was unavailable",
    labelNames: ["quota", "result"],
    registers,
  });
  const portions = new Counter({
    name: "svc_quota_portions_total",
    help: "Leases of tenants' quota portions from the store",
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

/** Result of a reload. */
type ReloadOutcome = "taken" | "refused" | "failed";

interface ReloadMetrics {
  /** Files of this kind, or a policy directory, are watched and in force. */
  followed(what: string): void;
  /** A change came into force, was refused, or could not be loaded and will be retried. */
  reloaded(what: string, outcome: ReloadOutcome): void;
}

function reloadMetrics(registers: Registry[]): ReloadMetrics {
  const reloads = new Counter({
    name: "svc_reloads_total",
    help: "Changes of files and policy directories: in force, refused as invalid, or failed to load",
    labelNames: ["what", "outcome"],
    registers,
  });
  const stale = new Gauge({
    name: "svc_reload_stale",
    help: "1 if the newest content of the watched files is not in force",
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
  spansHandled(outcome: SpanOutcome, count: number): void;
}

function traceMetrics(registers: Registry[]): TraceMetrics {
  const spans = new Counter({
    name: "svc_trace_spans_total",
    help: "Trace spans that were exported, dropped because the queue was full, or refused by the collector",
    labelNames: ["result"],
    registers,
  });
  return { spansHandled: (result, count) => spans.inc({ result }, count) };
}
