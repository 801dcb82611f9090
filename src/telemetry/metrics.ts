/** Metrics of one service, in their own registry. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { type Clock, systemClock } from "../base/clock.ts";
import { boundedAlertLabels, type CallMetrics, callMetrics, tenantCounter } from "./call-metrics.ts";
import { type ExpiryMetrics, expiryMetrics } from "./expiry-metrics.ts";
import type { SpanOutcome } from "./tracing.ts";

interface Exposition {
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

interface MetricsOptions {
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

// Metrics of records: decisions, durable writes, and the store and witnesses behind them.

interface LedgerMetrics {
  /** @param expectsEvidence whether an event should follow that cites the decision */
  decided(tenant: string, action: string, allow: boolean, expectsEvidence: boolean): void;
  /** An event was recorded whose citation of a decision matched. */
  evidenceArrived(tenant: string): void;
  /** One principal had many decisions denied within a minute. */
  denialsSpiked(tenant: string): void;
  batchAppended(records: number, durationMs: number): void;
  appendFailed(): void;
  /** The state of a log at a witness has changed. */
  witnessChanged(witness: string, result: "cosigned" | "failed" | "unsound"): void;
  /** Sets the source of the number of stuck tenants; called at every scrape. */
  watchStuck(count: () => number): void;
}

const appendSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5];
const batchRecords = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

function ledgerMetrics(registers: Registry[]): LedgerMetrics {
  const decisions = new Counter({
    name: "svc_decisions_total",
    help: "Recorded decisions; a retried call counts again, replays and decisions of candidate policies do not count",
    labelNames: ["action", "allow"],
    registers,
  });
  const ofTenant = tenantCounter({
    name: "svc_tenant_decisions_total",
    help: "Recorded decisions by tenant",
    label: "allow",
    registers,
  });
  const evidence = tenantCounter({
    name: "svc_tenant_evidence_total",
    help: "Allowed decisions that expect evidence (expected), and events that match a decision, repeated ones too (arrived)",
    label: "state",
    registers,
  });
  const spikes = tenantCounter({
    name: "svc_tenant_denial_spikes_total",
    help: "Minutes in which one principal had at least as many decisions denied as the security event denials_spiked says",
    label: "kind",
    registers,
  });
  const batches = new Histogram({
    name: "svc_append_batch_records",
    help: "Records that one durable write appended, without retries that were answered from stored answers",
    buckets: batchRecords,
    registers,
  });
  const durations = new Histogram({
    name: "svc_append_duration_seconds",
    help: "Time of one durable write, from handing it to the store to its confirmation",
    buckets: appendSeconds,
    registers,
  });
  const failures = new Counter({
    name: "svc_append_failures_total",
    help: "Failed writes of the ledger",
    registers,
  });
  const witnessChanges = new Counter({
    name: "svc_witness_changes_total",
    help: "Requests to witnesses by result: the log was cosigned, the witness failed, or it holds another log",
    labelNames: ["witness", "result"],
    registers,
  });
  let stuck: (() => number) | undefined;
  new Gauge({
    name: "svc_store_stuck_tenants",
    // The value is the same in every thread, or shared by them.
    help: "Tenants and other keys whose last store operations were aborted or timed out, without a success since",
    registers,
    collect() {
      if (stuck === undefined) this.remove();
      else this.set(stuck());
    },
  });
  return {
    decided(tenant, action, allow, expectsEvidence) {
      decisions.inc({ action, allow: String(allow) });
      ofTenant(tenant, String(allow));
      if (allow && expectsEvidence) evidence(tenant, "expected");
    },
    evidenceArrived: (tenant) => evidence(tenant, "arrived"),
    denialsSpiked: (tenant) => spikes(tenant, "principal"),
    batchAppended(records, durationMs) {
      batches.observe(records);
      durations.observe(durationMs / 1000);
    },
    appendFailed: () => failures.inc(),
    witnessChanged: (witness, result) => witnessChanges.inc({ witness, result }),
    watchStuck(count) {
      stuck = count;
    },
  };
}

interface PolicyMetrics {
  /** A decision with this alert of a policy was recorded. */
  policyAlerted(tenant: string, alert: string, allow: boolean): void;
  policyLoaded(revision: string): void;
  /** The newest policy directory content was refused, or could not be loaded. */
  policyRefused(result: "refused" | "failed"): void;
  /** Number of sets that Cedar alone evaluates, because their compiled policies differ from it. */
  policySetsDisagree(sets: number): void;
}

function policyMetrics(registers: Registry[], clock: Clock): PolicyMetrics {
  const reloads = new Counter({
    name: "svc_policy_loads_total",
    help: "Loads of policy sets: in force, refused as invalid, or failed to load",
    labelNames: ["result"],
    registers,
  });
  const stale = new Gauge({
    name: "svc_policy_stale",
    help: "1 if the newest content of the policy directory is not in force",
    registers,
  });
  const revisions = new Gauge({
    name: "svc_policy_revision_info",
    help: "1 for the revision in force",
    labelNames: ["revision"],
    registers,
  });
  const loadedAt = new Gauge({
    name: "svc_policy_loaded_timestamp_seconds",
    help: "When the revision came into force",
    registers,
  });
  const alerts = new Counter({
    name: "svc_policy_alerts_total",
    help: "Decisions made and recorded under a policy with this alert",
    labelNames: ["tenant", "alert", "allow"],
    registers,
  });
  const disagreeing = new Gauge({
    name: "svc_policy_sets_disagreeing",
    help: "Sets that Cedar alone evaluates, because their compiled policies differ from it",
    registers,
  });
  const alertLabelsOf = boundedAlertLabels();
  let inForce: string | undefined;
  return {
    policyAlerted: (tenant, name, allow) => alerts.inc({ ...alertLabelsOf(tenant, name), allow: String(allow) }),
    policyLoaded(revision) {
      if (inForce !== undefined) revisions.remove({ revision: inForce });
      inForce = revision;
      revisions.set({ revision }, 1);
      loadedAt.set(clock.now() / 1000);
      reloads.inc({ result: "loaded" });
      stale.set(0);
    },
    policyRefused(result) {
      reloads.inc({ result });
      stale.set(1);
    },
    policySetsDisagree: (sets) => disagreeing.set(sets),
  };
}

// Metrics of queues by stage.

/** Queues: calls before admission, artifact objects before hashing, records before the durable write. */
type QueueStage = "admission" | "artifact" | "append";

interface QueueMetrics {
  /** Sets the source of the queue's length. */
  watchQueue(stage: QueueStage, depth: () => number): void;
  /** Sets the source of the number of calls with a place. */
  watchPlaces(places: () => number): void;
  queueWaited(stage: QueueStage, waitedMs: number): void;
}

const waitSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];

function queueMetrics(registers: Registry[]): QueueMetrics {
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
