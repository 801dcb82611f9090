/** Metrics of what is recorded: decisions, the writes that make records durable, and the store and witnesses behind. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { tenantCounter } from "./tenant-counter.ts";

export interface LedgerMetrics {
  /** A decision was recorded, so that it may be answered. */
  decided(tenant: string, action: string, allow: boolean): void;
  /** Records became durable in one write. */
  batchAppended(records: number, durationMs: number): void;
  /** A write of the ledger failed. */
  appendFailed(): void;
  /** What is known of a log at a witness has changed. */
  witnessChanged(witness: string, result: "cosigned" | "failed" | "unsound"): void;
  /** From now on asks, whenever metrics are read, with how many tenants the store does not get on. */
  watchStuck(count: () => number): void;
}

const appendSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5];
const batchRecords = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/** Makes them in the registries. */
export function ledgerMetrics(registers: Registry[]): LedgerMetrics {
  const decisions = new Counter({
    name: "svc_decisions_total",
    help: "Decisions made and recorded, each call for itself: one sent again counts again, a replay or a candidate's opinion never",
    labelNames: ["action", "allow"],
    registers,
  });
  const ofTenant = tenantCounter({
    name: "svc_tenant_decisions_total",
    help: "The same decisions by tenant",
    label: "allow",
    registers,
  });
  const batches = new Histogram({
    name: "svc_append_batch_records",
    help: "Records that one durable write appended; retries answered from kept answers are none",
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
    help: "Logs that a witness cosigned again, could not be asked about, or found to be another",
    labelNames: ["witness", "result"],
    registers,
  });
  let stuck: (() => number) | undefined;
  new Gauge({
    name: "svc_store_stuck_tenants",
    // Every thread says the same, or has it in common with others.
    help: "Tenants, and other keys, whose work the store called off or gave up, and that have not got on since",
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
