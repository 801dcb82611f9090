/**
 * Durable appends a second through the ledger, beside raw inserts of rows of the same size into the same schema, with
 * as many rows a commit as there are callers, in the same run. `node bench/append.ts [seconds per measurement]`.
 */
import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { systemClock } from "../src/base/clock.ts";
import { newRecordId, parsePrincipalId, parseRequestId, parseTenantId, type RandomFill } from "../src/base/ids.ts";
import type { Ledger, NewRecord } from "../src/ledger/ports.ts";
import { seedBytes, sequence } from "../src/ledger/sequence.ts";
import { openConnection } from "../src/stores/sqlite/connection.ts";
import { migrateSqlite } from "../src/stores/sqlite/migrate.ts";
import { openSqliteLedger } from "../src/stores/sqlite/open-ledger.ts";

const measureMs = Number(process.argv[2] ?? 2) * 1_000;
const warmUpMs = measureMs / 4;
const random: RandomFill = (bytes) => randomFillSync(bytes);
const directory = mkdtempSync(join(tmpdir(), "bench-append-"));

interface Row {
  readonly callers: number;
  readonly tenants: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly loopP99Ms: number;
  readonly rawPerSecond: number;
}

/** A decision of usual size: 1.1 kB as a record. */
function makeRecord(tenant: number): NewRecord {
  return {
    kind: "decision",
    recordId: newRecordId(systemClock, random),
    tenantId: good(parseTenantId(`tenant-${tenant}`)),
    requestId: good(parseRequestId("0198d2a0-1111-7222-8333-444444444444")),
    caller: {
      principal_id: good(parsePrincipalId("principal-1")),
      subject: "service-account-1",
      auth_source: "bearer_token",
    },
    route: "/v1/sdk/protection-plan",
    request: {
      operation: "protect",
      workload: { application: "billing", environment: "production", component: "api" },
      resource: { kind: "invoice", id: "invoice-123", mime_type: "application/pdf" },
      purpose: "monthly run",
      labels: ["pii", "finance", "eu"],
      attributes: { residency: "eu", tier: "gold", team: "billing" },
      content_digest: `sha256:${"a".repeat(64)}`,
      content_size_bytes: 12_345,
    },
    outcome: {
      allow: true,
      policy_revision: `sha256:${"b".repeat(64)}`,
      reasons: ["platform.allow", "tenant.allow"],
      handling_mode: "local_embedded_enforcement",
      artifact_profile: "tdf",
      bind_policy_to: ["artifact_digest", "content_digest"],
      required_actions: ["protect_locally"],
    },
    policyRevision: `sha256:${"b".repeat(64)}`,
  };
}

function good<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error("malformed value");
  return value;
}

/** Callers that each append, wait for the answer, and append again. */
async function measureLedger(callers: number, tenants: number): Promise<Omit<Row, "rawPerSecond">> {
  const path = join(directory, `ledger-${callers}-${tenants}.db`);
  const ledger = await openSqliteLedger({ path, originPrefix: "bench.example/logs", clock: systemClock, random });
  await load(ledger, callers, tenants, warmUpMs);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const began = performance.now();
  const latenciesMs = await load(ledger, callers, tenants, measureMs);
  const seconds = (performance.now() - began) / 1_000;
  delay.disable();
  await ledger.close();
  latenciesMs.sort((a, b) => a - b);
  const at = (share: number) => latenciesMs[Math.floor(latenciesMs.length * share)] ?? Number.NaN;
  return {
    callers,
    tenants,
    perSecond: latenciesMs.length / seconds,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    loopP99Ms: delay.percentile(99) / 1e6,
  };
}

async function load(ledger: Ledger, callers: number, tenants: number, durationMs: number): Promise<number[]> {
  const latenciesMs: number[] = [];
  const end = performance.now() + durationMs;
  const call = async (caller: number) => {
    for (let began = performance.now(); began < end; began = performance.now()) {
      await ledger.append(makeRecord(caller % tenants));
      latenciesMs.push(performance.now() - began);
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, caller) => call(caller)));
  return latenciesMs;
}

/** The same rows, made beforehand, inserted on this thread: what SQLite itself can do. */
function measureRaw(batch: number): number {
  const path = join(directory, `raw-${batch}.db`);
  migrateSqlite({ path, random, busyTimeoutMs: 1_000 });
  const connection = openConnection({ path, readOnly: false, busyTimeoutMs: 1_000 });
  const entry = connection.prepare(
    "INSERT INTO entries (tenant_id, leaf_index, record_id, leaf, sealed) VALUES (?, ?, ?, ?, ?)",
  );
  const opening = connection.prepare("INSERT INTO openings (tenant_id, record_id, opening) VALUES (?, ?, ?)");
  const head = { origin: "bench.example/logs/0", size: 1, lastRecordedAtMs: 0 };
  const sample = sequence(head, [makeRecord(0)], systemClock.now(), random(new Uint8Array(seedBytes(1))), "")
    .entries[0];
  if (sample === undefined) throw new Error("no sample");
  let rows = 0;
  const insertUntil = (end: number) => {
    while (performance.now() < end) {
      connection.exec("BEGIN IMMEDIATE");
      for (let row = 0; row < batch; row++) {
        const recordId = newRecordId(systemClock, random);
        entry.run("tenant-0", rows++, recordId, sample.leaf, sample.sealed);
        opening.run("tenant-0", recordId, sample.opening);
      }
      connection.exec("COMMIT");
    }
  };
  insertUntil(performance.now() + warmUpMs);
  const before = rows;
  const began = performance.now();
  insertUntil(began + measureMs);
  const perSecond = (rows - before) / ((performance.now() - began) / 1_000);
  connection.close();
  return perSecond;
}

try {
  const rows: Row[] = [];
  for (const callers of [1, 16, 64, 256]) {
    const rawPerSecond = measureRaw(callers);
    for (const tenants of new Set([1, Math.min(callers, 16)])) {
      rows.push({ ...(await measureLedger(callers, tenants)), rawPerSecond });
    }
  }
  const table = rows.map((row) => ({
    callers: row.callers,
    tenants: row.tenants,
    "records/s": Math.round(row.perSecond),
    "raw rows/s": Math.round(row.rawPerSecond),
    ratio: (row.perSecond / row.rawPerSecond).toFixed(2),
    "p50 ms": row.p50Ms.toFixed(2),
    "p99 ms": row.p99Ms.toFixed(2),
    "loop p99 ms": row.loopP99Ms.toFixed(2),
  }));
  // biome-ignore lint/suspicious/noConsole: the table is what this program is for
  console.table(table);
} finally {
  rmSync(directory, { recursive: true, force: true });
}
