/** Metrics of records: decisions, durable writes, and the store and witnesses behind them. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { tenantCounter } from "./tenant-counter.ts";

export interface LedgerMetrics {
  decided(tenant: string, action: string, allow: boolean): void;
  batchAppended(records: number, durationMs: number): void;
  appendFailed(): void;
  /** The state of a log at a witness has changed. */
  witnessChanged(witness: string, result: "cosigned" | "failed" | "unsound"): void;
  /** Sets the source of the number of stuck tenants; called at every scrape. */
  watchStuck(count: () => number): void;
}

const appendSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5];
const batchRecords = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

export function ledgerMetrics(registers: Registry[]): LedgerMetrics {
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
    decided(tenant, action, allow) {
      decisions.inc({ action, allow: String(allow) });
      ofTenant(tenant, String(allow));
    },
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
