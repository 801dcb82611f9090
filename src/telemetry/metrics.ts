/** Counters and durations of one service, in a registry of its own. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { Exposition, MetricsSnapshot } from "./merged-metrics.ts";
import { type PolicyMetrics, policyMetrics } from "./policy-metrics.ts";
import { type QuotaMetrics, quotaMetrics } from "./quota-metrics.ts";
import type { SpanOutcome } from "./tracing/tracing.ts";

/** A call that was answered. */
export interface FinishedCall {
  /** `Service/Method`, from the descriptors; `none` where no method was found. Never text of a caller's. */
  readonly rpc: string;
  readonly protocol: "rest" | "connect" | "grpc" | "grpc_web";
  /** Connect code in snake_case, or `ok`. */
  readonly code: string;
  /** Reason of the refusal, or `none`. */
  readonly reason: string;
  readonly durationMs: number;
}

/** What became of a change that a running service was to take up. */
export type ReloadOutcome = "taken" | "refused" | "failed";

/** What the rooms report. Every method is cheap and never throws. */
export interface Metrics extends PolicyMetrics, QuotaMetrics {
  callFinished(call: FinishedCall): void;
  /** Gets what tells how many calls wait for their turn. Call once. */
  watchWaiting(count: () => number): void;
  /** A decision was recorded, so that it may be answered; the same for every tenant. */
  decided(action: string, allow: boolean): void;
  /** Records became durable in one write. */
  batchAppended(records: number, durationMs: number): void;
  /** What is known of a log at a witness has changed. */
  witnessChanged(witness: string, result: "cosigned" | "failed" | "unsound"): void;
  /** A write of the ledger failed. */
  appendFailed(): void;
  /** Asks, whenever metrics are read, with how many tenants the store does not get on. To be called once. */
  watchStuck(count: () => number): void;
  /** A request body had no room in this share of the memory for bodies. */
  bodyRefused(share: "all" | "tenant" | "anonymous"): void;
  /** From now on what this returns is shown as the bytes of request bodies in memory. */
  watchBodies(inFlightBytes: () => number): void;
  /** Credentials were refused for this reason. */
  credentialsRefused(reason: string): void;
  /** A forwarded certificate came from somebody who is no trusted proxy. */
  forwardedCertificateIgnored(): void;
  /** Identity headers came from somebody who is no trusted ingress. */
  identityHeadersIgnored(): void;
  /** The issuer's keys were fetched, or could not be. */
  issuerKeysFetched(ok: boolean): void;
  /** Files of this kind, or a policy directory, are followed, and what they say is in force. */
  followed(what: string): void;
  /** A change of what is followed came into force; was refused; or could not be taken now, and is tried again. */
  reloaded(what: string, outcome: ReloadOutcome): void;
  /** Spans of traces were dealt with. */
  spansHandled(outcome: SpanOutcome, count: number): void;
  /** Text for a scraper, and its content type. */
  expose(): Promise<Exposition>;
  /** The same as data, for a thread that exposes it together with that of others. */
  snapshot(): Promise<MetricsSnapshot>;
  /** Stops what observes in the background; idempotent. */
  close(): void;
}

export interface MetricsOptions {
  /**
   * Also memory, processor time, descriptors and collections: of the process, or only what a thread has of its own.
   * These observers stay until it ends.
   */
  readonly process: boolean | "thread";
}

const callSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30];
const appendSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5];
const batchRecords = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/** Makes the metrics of one service. */
export function createMetrics({ process }: MetricsOptions): Metrics {
  const registry = new Registry();
  const registers = [registry];
  if (process !== false) collectDefaultMetrics({ register: registry });
  const stopEventLoop = observeEventLoop(registry);

  const calls = new Counter({
    name: "svc_calls_total",
    help: "Calls answered",
    labelNames: ["rpc", "protocol", "code", "reason"],
    registers,
  });
  const callDurations = new Histogram({
    name: "svc_call_duration_seconds",
    help: "Time from the headers of a call to its answer",
    labelNames: ["rpc", "protocol"],
    buckets: callSeconds,
    registers,
  });
  const decisions = new Counter({
    name: "svc_decisions_total",
    help: "Decisions made and recorded, each call for itself: one sent again counts again, a replay or a candidate's opinion never",
    labelNames: ["action", "allow"],
    registers,
  });
  const batches = new Histogram({
    name: "svc_append_batch_records",
    help: "Records that one durable write appended; retries answered from kept answers are none",
    buckets: batchRecords,
    registers,
  });
  const appendDurations = new Histogram({
    name: "svc_append_duration_seconds",
    help: "Time of one durable write, from handing it to the store to its confirmation",
    buckets: appendSeconds,
    registers,
  });
  const appendFailures = new Counter({
    name: "svc_append_failures_total",
    help: "Failed writes of the ledger",
    registers,
  });
  const witnessChanges = new Counter({
    name: "svc_witness_changes_total",
    help: "Logs that a witness cosigned again, could not be asked about, or found to be another",
    labelNames: ["witness", "result"],
    registers,
  });
  const refusals = new Counter({
    name: "svc_credentials_refused_total",
    help: "Credentials refused",
    labelNames: ["reason"],
    registers,
  });
  const refusedBodies = new Counter({
    name: "svc_bodies_refused_total",
    help: "Request bodies refused for want of room in the memory for bodies, by whose share was used up",
    labelNames: ["share"],
    registers,
  });
  const ignoredCertificates = new Counter({
    name: "svc_forwarded_certificates_ignored_total",
    help: "Forwarded client certificates from addresses that are no trusted proxies",
    registers,
  });
  const ignoredIdentities = new Counter({
    name: "svc_identity_headers_ignored_total",
    help: "Calls with identity headers from somebody who is no trusted ingress",
    registers,
  });
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
  const keyFetches = new Counter({
    name: "svc_issuer_key_fetches_total",
    help: "Fetches of the issuer's keys",
    labelNames: ["result"],
    registers,
  });
  const spans = new Counter({
    name: "svc_trace_spans_total",
    help: "Spans of traces that were exported, dropped for want of room in the queue, or not taken by the collector",
    labelNames: ["result"],
    registers,
  });

  return {
    callFinished({ rpc, protocol, code, reason, durationMs }) {
      calls.inc({ rpc, protocol, code, reason });
      callDurations.observe({ rpc, protocol }, durationMs / 1000);
    },
    watchWaiting(count) {
      new Gauge({
        name: "svc_calls_waiting",
        help: "Calls that wait for their turn, before anything is done for them",
        registers,
        collect() {
          this.set(count());
        },
      });
    },
    decided: (action, allow) => decisions.inc({ action, allow: String(allow) }),
    batchAppended(records, durationMs) {
      batches.observe(records);
      appendDurations.observe(durationMs / 1000);
    },
    witnessChanged: (witness, result) => witnessChanges.inc({ witness, result }),
    appendFailed: () => appendFailures.inc(),
    watchStuck(count) {
      new Gauge({
        name: "svc_store_stuck_tenants",
        // Every thread says the same, or has it in common with others.
        aggregator: "max",
        help: "Tenants, and other keys, whose work the store called off or gave up, and that have not got on since",
        registers,
        collect() {
          this.set(count());
        },
      });
    },
    credentialsRefused: (reason) => refusals.inc({ reason }),
    bodyRefused: (share) => refusedBodies.inc({ share }),
    watchBodies: (inFlightBytes) => {
      new Gauge({
        name: "svc_body_bytes_in_flight",
        // Every thread says the same, or has it in common with others.
        aggregator: "max",
        help: "Bytes of the memory for request bodies that are taken",
        registers,
        collect() {
          this.set(inFlightBytes());
        },
      });
    },
    forwardedCertificateIgnored: () => ignoredCertificates.inc(),
    identityHeadersIgnored: () => ignoredIdentities.inc(),
    issuerKeysFetched: (ok) => keyFetches.inc({ result: ok ? "ok" : "failed" }),
    followed(what) {
      for (const outcome of ["taken", "refused"]) reloads.inc({ what, outcome }, 0);
      stale.set({ what }, 0);
    },
    reloaded(what, outcome) {
      reloads.inc({ what, outcome });
      stale.set({ what }, outcome === "taken" ? 0 : 1);
    },
    spansHandled: (result, count) => spans.inc({ result }, count),
    ...policyMetrics(registers),
    ...quotaMetrics(registers),
    expose: async () => ({ contentType: registry.contentType, body: await registry.metrics() }),
    async snapshot() {
      const all = await registry.getMetricsAsJSON();
      return process === "thread" ? all.filter(({ name }) => !isOfProcess(name)) : all;
    },
    close: stopEventLoop,
  };
}

/** Metrics of `collectDefaultMetrics` that are the same in every thread. */
function isOfProcess(name: string): boolean {
  return name.startsWith("process_") || name === "nodejs_version_info";
}

/** Reports the event loop's delay since the last scrape. Returns what stops it. */
function observeEventLoop(registry: Registry): () => void {
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  new Gauge({
    name: "svc_event_loop_delay_seconds",
    aggregator: "max",
    help: "Delay of the event loop since the last scrape",
    labelNames: ["quantile"],
    registers: [registry],
    collect() {
      for (const quantile of [50, 99, 100]) {
        this.set({ quantile: String(quantile / 100) }, delay.percentile(quantile) / 1e9);
      }
      delay.reset();
    },
  });
  return () => delay.disable();
}
