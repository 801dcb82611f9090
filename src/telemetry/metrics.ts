/** Metrics of one service, in their own registry. Every method is cheap and never throws. */
import { type CollectFunction, Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { type Clock, systemClock } from "../base/clock.ts";
import type { SpanOutcome } from "./tracing.ts";

/** What the rooms report. */
export type Metrics = ReturnType<typeof createMetrics>;

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

export function createMetrics({ process, build, clock = systemClock }: MetricsOptions) {
  const registry = new Registry();
  if (process) collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
  const make = new Maker(registry);
  const info = make.gauge("svc_build_info", "1 for the version that runs", "version", "node");
  if (build !== undefined) info.set({ ...build }, 1);
  return {
    ...callMetrics(make),
    ...ledgerMetrics(make),
    ...policyMetrics(make, clock),
    ...queueMetrics(make),
    ...quotaMetrics(make),
    ...expiryMetrics(make, clock),
    ...traceMetrics(make),
    ...reloadMetrics(make),
    /** Returns the text for a scraper and its content type. */
    expose: async () => ({ contentType: String(registry.contentType), body: await registry.metrics() }),
    /** Lists all metrics in order. */
    describe: () => registry.getMetricsAsArray().map(description),
  };
}

/** The library's types lack label names. */
function description(metric: object): MetricDescription {
  const { name, type, help, labelNames = [] } = metric as Omit<MetricDescription, "labels"> & { labelNames?: string[] };
  return { name, type, help, labels: labelNames.filter((label) => label !== "le") };
}

/** Makes the metrics of a registry. */
class Maker {
  readonly #registers: Registry[];

  constructor(registry: Registry) {
    this.#registers = [registry];
  }

  counter(name: string, help: string, ...labelNames: string[]): Counter<string> {
    return new Counter({ name, help, labelNames, registers: this.#registers });
  }

  gauge(name: string, help: string, ...labelNames: string[]): Gauge<string> {
    return new Gauge({ name, help, labelNames, registers: this.#registers });
  }

  histogram(name: string, help: string, buckets: number[], ...labelNames: string[]): Histogram<string> {
    return new Histogram({ name, help, labelNames, buckets, registers: this.#registers });
  }

  /** A gauge that `collect` sets at every scrape. */
  collected(name: string, help: string, labelNames: string[], collect: CollectFunction<Gauge<string>>): void {
    new Gauge({ name, help, labelNames, registers: this.#registers, collect });
  }

  /** A gauge that is read at every scrape. It is absent until the returned function has set its source. */
  watched(name: string, help: string): (source: () => number) => void {
    let read: (() => number) | undefined;
    this.collected(name, help, [], function collect() {
      if (read === undefined) this.remove();
      else this.set(read());
    });
    return (source) => {
      read = source;
    };
  }

  /**
   * A counter by tenant and one more label with few values. Returns the function that increments it, which is very
   * cheap: series are built only at a scrape.
   */
  tenantCounter(name: string, help: string, label: string): (tenant: string, value: string) => void {
    const tenantOf = boundedLabels(maxLabelledTenants);
    const counts = new Map<string, Map<string, number>>();
    new Counter<string>({
      ...{ name, help, registers: this.#registers },
      labelNames: ["tenant", label],
      collect() {
        this.reset();
        for (const [tenant, byValue] of counts)
          for (const [value, count] of byValue) this.inc({ tenant, [label]: value }, count);
      },
    });
    return (tenant, value) => {
      const labelled = tenantOf(tenant);
      const byValue = counts.get(labelled) ?? new Map<string, number>();
      if (byValue.size === 0) counts.set(labelled, byValue);
      byValue.set(value, (byValue.get(value) ?? 0) + 1);
    };
  }
}

/** Label of tenants and alerts beyond the bounds; no tenant's id begins with an underscore. */
const otherLabel = "_other";
/** Most tenants with separate labels in a metric. */
const maxLabelledTenants = 1_000;
/** Most alert names with separate labels; most series of one metric by tenant and alert. */
const maxLabelledAlerts = 100;
const maxLabelledPairs = 1_000;

/** Gives the first values separate labels; all others share one. */
function boundedLabels(maximum: number): (value: string) => string {
  const labelled = new Set<string>();
  return (value) => {
    if (value !== otherLabel && labelled.size < maximum) labelled.add(value);
    return labelled.has(value) ? value : otherLabel;
  };
}

/** Labels of tenants with alerts; the number of pairs is bounded too. */
function boundedAlertLabels(): (tenant: string, name: string) => { tenant: string; alert: string } {
  const alertOf = boundedLabels(maxLabelledAlerts);
  const pairOf = boundedLabels(maxLabelledPairs);
  return (tenant, name) => {
    const alert = alertOf(name);
    return { tenant: pairOf(`${tenant} ${alert}`) === otherLabel ? otherLabel : tenant, alert };
  };
}

// Calls: their results, their tenants, and refusals before a call began.

interface FinishedCall {
  /** `Service/Method`, from the descriptors; `none` if no method was found. Never text of the caller. */
  readonly rpc: string;
  readonly protocol: "rest" | "connect" | "grpc" | "grpc_web";
  /** Connect code in snake_case, or `ok`. */
  readonly code: string;
  /** Reason of the refusal, or `none`. */
  readonly reason: string;
  readonly durationMs: number;
  /** HTTP status of the code: below 500 for the caller's faults. */
  readonly httpStatus: number;
  /** Absent if the caller was not authenticated. */
  readonly tenant?: string | undefined;
}

const callSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30];

function callMetrics(make: Maker) {
  const calls = make.counter("svc_calls_total", "Calls answered", "rpc", "protocol", "code", "reason");
  const durations = make.histogram(
    "svc_call_duration_seconds",
    "Time from the headers of a call to its answer",
    callSeconds,
    "rpc",
    "protocol",
  );
  const ofTenant = make.tenantCounter(
    "svc_tenant_calls_total",
    "Calls of authenticated callers: ok, refused (the caller's fault), failed (the service's fault)",
    "result",
  );
  const refusals = make.counter("svc_credentials_refused_total", "Credentials refused", "reason");
  const refusedBodies = make.counter(
    "svc_bodies_refused_total",
    "Request bodies refused because the memory for bodies was full, by the share that was used up",
    "share",
  );
  const watchBodies = make.watched("svc_body_bytes_in_flight", "Bytes in use of the memory for request bodies");
  const ignoredCertificates = make.counter(
    "svc_forwarded_certificates_ignored_total",
    "Forwarded client certificates from addresses that are not trusted proxies",
  );
  const ignoredIdentities = make.counter(
    "svc_identity_headers_ignored_total",
    "Calls with identity headers that did not come from the trusted ingress",
  );
  return {
    callFinished({ rpc, protocol, code, reason, durationMs, httpStatus, tenant }: FinishedCall): void {
      calls.inc({ rpc, protocol, code, reason });
      durations.observe({ rpc, protocol }, durationMs / 1000);
      if (tenant === undefined) return;
      const result = code === "ok" ? "ok" : httpStatus < 500 ? "refused" : "failed";
      ofTenant(tenant, result);
    },
    /** A request body was refused because this share of the memory for bodies was used up. */
    bodyRefused: (share: "all" | "tenant" | "anonymous") => refusedBodies.inc({ share }),
    /** Sets the source of the gauge of request body bytes. */
    watchBodies,
    credentialsRefused: (reason: string) => refusals.inc({ reason }),
    /** A forwarded certificate came from an untrusted address. */
    forwardedCertificateIgnored: () => ignoredCertificates.inc(),
    /** Identity headers came from an untrusted address. */
    identityHeadersIgnored: () => ignoredIdentities.inc(),
  };
}

// Records: decisions, durable writes, and the store and witnesses behind them.

const appendSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5];
const batchRecords = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

function ledgerMetrics(make: Maker) {
  const decisions = make.counter(
    "svc_decisions_total",
    "Recorded decisions; a retried call counts again, replays and decisions of candidate policies do not count",
    "action",
    "allow",
  );
  const ofTenant = make.tenantCounter("svc_tenant_decisions_total", "Recorded decisions by tenant", "allow");
  const evidence = make.tenantCounter(
    "svc_tenant_evidence_total",
    "Allowed decisions that expect evidence (expected), and events that match a decision, repeated ones too (arrived)",
    "state",
  );
  const spikes = make.tenantCounter(
    "svc_tenant_denial_spikes_total",
    "Minutes in which a principal, or a subject that it asks for, had as many denials as the event denials_spiked says",
    "kind",
  );
  const batches = make.histogram(
    "svc_append_batch_records",
    "Records that one durable write appended, without retries that were answered from stored answers",
    batchRecords,
  );
  const durations = make.histogram(
    "svc_append_duration_seconds",
    "Time of one durable write, from handing it to the store to its confirmation",
    appendSeconds,
  );
  const failures = make.counter("svc_append_failures_total", "Failed writes of the ledger");
  const witnessChanges = make.counter(
    "svc_witness_changes_total",
    "Requests to witnesses by result: the log was cosigned, the witness failed, or it holds another log",
    "witness",
    "result",
  );
  const watchStuck = make.watched(
    "svc_store_stuck_tenants",
    "Tenants and other keys whose last store operations were aborted or timed out, without a success since",
  );
  return {
    /** @param expectsEvidence whether an event should follow that cites the decision */
    decided(tenant: string, action: string, allow: boolean, expectsEvidence: boolean): void {
      decisions.inc({ action, allow: String(allow) });
      ofTenant(tenant, String(allow));
      if (allow && expectsEvidence) evidence(tenant, "expected");
    },
    /** An event was recorded whose citation of a decision matched. */
    evidenceArrived: (tenant: string) => evidence(tenant, "arrived"),
    /** One principal, or one subject of its questions, had many decisions denied within a minute. */
    denialsSpiked: (tenant: string, kind: "principal" | "subject") => spikes(tenant, kind),
    batchAppended(records: number, durationMs: number): void {
      batches.observe(records);
      durations.observe(durationMs / 1000);
    },
    appendFailed: () => failures.inc(),
    /** A request to a witness has this result. */
    witnessAsked: (witness: string, result: "cosigned" | "failed" | "unsound") =>
      witnessChanges.inc({ witness, result }),
    /** Sets the source of the number of stuck tenants; called at every scrape. */
    watchStuck,
  };
}

function policyMetrics(make: Maker, clock: Clock) {
  const reloads = make.counter(
    "svc_policy_loads_total",
    "Loads of policy sets: in force, refused as invalid, or failed to load",
    "result",
  );
  const stale = make.gauge("svc_policy_stale", "1 if the newest content of the policy directory is not in force");
  const revisions = make.gauge("svc_policy_revision_info", "1 for the revision in force", "revision");
  const loadedAt = make.gauge("svc_policy_loaded_timestamp_seconds", "When the revision came into force");
  const alerts = make.counter(
    "svc_policy_alerts_total",
    "Decisions made and recorded under a policy with this alert",
    "tenant",
    "alert",
    "allow",
  );
  const disagreeing = make.gauge(
    "svc_policy_sets_disagreeing",
    "Sets that Cedar alone evaluates, because their compiled policies differ from it",
  );
  const alertLabelsOf = boundedAlertLabels();
  let inForce: string | undefined;
  return {
    /** A decision with this alert of a policy was recorded. */
    policyAlerted: (tenant: string, name: string, allow: boolean) =>
      alerts.inc({ ...alertLabelsOf(tenant, name), allow: String(allow) }),
    policyLoaded(revision: string): void {
      if (inForce !== undefined) revisions.remove({ revision: inForce });
      inForce = revision;
      revisions.set({ revision }, 1);
      loadedAt.set(clock.now() / 1000);
      reloads.inc({ result: "loaded" });
      stale.set(0);
    },
    /** The newest policy directory content was refused, or could not be loaded. */
    policyRefused(result: "refused" | "failed"): void {
      reloads.inc({ result });
      stale.set(1);
    },
    /** Number of sets that Cedar alone evaluates, because their compiled policies differ from it. */
    policySetsDisagree: (sets: number) => disagreeing.set(sets),
  };
}

/** Queues: calls before admission, artifact objects before hashing, records before the durable write. */
type QueueStage = "admission" | "artifact" | "append";

const waitSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];

function queueMetrics(make: Maker) {
  const depths = new Map<QueueStage, () => number>();
  make.collected(
    "svc_queue_depth",
    "Queue length: calls (admission), objects to be hashed (artifact), records (append)",
    ["stage"],
    function collect() {
      for (const [stage, depth] of depths) this.set({ stage }, depth());
    },
  );
  const watchWaiting = make.watched(
    "svc_calls_waiting",
    "Queued calls: svc_queue_depth of the stage admission without labels, for autoscalers",
  );
  const watchPlaces = make.watched(
    "svc_calls_in_progress",
    "Calls in progress, without those that wait for their caller",
  );
  const waits = make.histogram("svc_queue_wait_seconds", "Time in the queue; 0 without a wait", waitSeconds, "stage");
  return {
    /** Sets the source of the queue's length. */
    watchQueue(stage: QueueStage, depth: () => number): void {
      depths.set(stage, depth);
      if (stage === "admission") watchWaiting(depth);
    },
    /** Sets the source of the number of calls with a place. */
    watchPlaces,
    queueWaited: (stage: QueueStage, waitedMs: number) => waits.observe({ stage }, waitedMs / 1000),
  };
}

function quotaMetrics(make: Maker) {
  const calls = make.counter(
    "svc_quota_calls_total",
    "Calls refused for a tenant's quota, or admitted uncounted while the store was unavailable",
    "quota",
    "result",
  );
  const portions = make.counter(
    "svc_quota_portions_total",
    "Leases of tenants' quota portions from the store",
    "quota",
    "result",
  );
  return {
    /** Counts the result of a call, or of a lease from the store. */
    quotaEvent(quota: string, event: "refused" | "uncounted" | "leased" | "lease_failed"): void {
      if (event === "refused" || event === "uncounted") calls.inc({ quota, result: event });
      else portions.inc({ quota, result: event === "leased" ? "ok" : "failed" });
    },
  };
}

// Certificates, keys and issuers. All times are points in time; alerts compute durations.

/** When all certificates of a file are valid. Milliseconds since the Unix epoch. */
export interface Validity {
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

const introspectionResults = ["active", "inactive", "failed", "unasked"] as const;

function expiryMetrics(make: Maker, clock: Clock) {
  const expiries = make.gauge(
    "svc_certificate_expiry_timestamp_seconds",
    "When the first of the certificates in force expires, by the setting that names their file",
    "setting",
  );
  const beginnings = make.gauge(
    "svc_certificate_not_before_timestamp_seconds",
    "Since when all of the certificates in force are valid, by the setting that names their file",
    "setting",
  );
  let keyFiles = async (): Promise<ReadonlyMap<string, number>> => new Map();
  make.collected(
    "svc_key_file_timestamp_seconds",
    "When the file of a key was last written, by the setting that names it",
    ["setting"],
    async function collect() {
      this.reset();
      for (const [setting, writtenAtMs] of await keyFiles()) this.set({ setting }, writtenAtMs / 1000);
    },
  );
  const fetches = make.counter(
    "svc_issuer_key_fetches_total",
    "Fetches of the keys of token issuers",
    "issuer",
    "result",
  );
  const fetchedAt = make.gauge(
    "svc_issuer_keys_fetched_timestamp_seconds",
    "When the keys of a token issuer were last fetched; 0 if they never were",
    "issuer",
  );
  const overreaches = make.counter(
    "svc_issuer_overreaches_total",
    "Tokens that an issuer signed for a foreign tenant; a cached token counts once",
    "issuer",
  );
  const introspections = make.counter(
    "svc_introspections_total",
    "Introspections of tokens at their issuer; unasked: a limit was reached",
    "issuer",
    "result",
  );
  let issuers: ReadonlySet<string> = new Set();
  return {
    /** Notes the certificates now in force for a setting. */
    certificatesInForce(setting: string, { notBeforeMs, notAfterMs }: Validity): void {
      beginnings.set({ setting }, notBeforeMs / 1000);
      expiries.set({ setting }, notAfterMs / 1000);
    },
    /** Sets the source of the times at which key files were last written, in milliseconds by setting. */
    watchKeyFiles(writtenAtMs: () => Promise<ReadonlyMap<string, number>>): void {
      keyFiles = writtenAtMs;
    },
    /** Counts a fetch of the issuer's keys. Issuers come from the settings, so their number is bounded. */
    issuerKeysFetched(issuer: string, ok: boolean): void {
      // The fetch ended after its issuer was removed.
      if (!issuers.has(issuer)) return;
      fetches.inc({ issuer, result: ok ? "ok" : "failed" });
      if (ok) fetchedAt.set({ issuer }, clock.now() / 1000);
    },
    /** Replaces the list of issuers: series of others are removed. */
    issuersInForce(inForce: readonly string[]): void {
      for (const issuer of issuers) {
        if (inForce.includes(issuer)) continue;
        fetchedAt.remove({ issuer });
        overreaches.remove({ issuer });
        for (const result of ["ok", "failed"]) fetches.remove({ issuer, result });
        for (const result of introspectionResults) introspections.remove({ issuer, result });
      }
      for (const issuer of inForce) if (!issuers.has(issuer)) fetchedAt.set({ issuer }, 0);
      issuers = new Set(inForce);
    },
    /** Counts an introspection of a token, including one that a limit prevented. */
    introspected: (issuer: string, result: (typeof introspectionResults)[number]) =>
      introspections.inc({ issuer, result }),
    /** The issuer signed a token for a foreign tenant. */
    issuerOverreached: (issuer: string) => overreaches.inc({ issuer }),
  };
}

function traceMetrics(make: Maker) {
  const spans = make.counter(
    "svc_trace_spans_total",
    "Trace spans that were exported, dropped because the queue was full, or refused by the collector",
    "result",
  );
  return { spansHandled: (result: SpanOutcome, count: number) => spans.inc({ result }, count) };
}

function reloadMetrics(make: Maker) {
  const reloads = make.counter(
    "svc_reloads_total",
    "Changes of files and policy directories: in force, refused as invalid, or failed to load",
    "what",
    "outcome",
  );
  const stale = make.gauge("svc_reload_stale", "1 if the newest content of the watched files is not in force", "what");
  return {
    /** Files of this kind, or a policy directory, are watched and in force. */
    followed(what: string): void {
      for (const outcome of ["taken", "refused"]) reloads.inc({ what, outcome }, 0);
      stale.set({ what }, 0);
    },
    /** A change came into force, was refused, or could not be loaded and will be retried. */
    reloaded(what: string, outcome: "taken" | "refused" | "failed"): void {
      reloads.inc({ what, outcome });
      stale.set({ what }, outcome === "taken" ? 0 : 1);
    },
  };
}
