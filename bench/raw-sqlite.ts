/** What SQLite itself can do: rows of the ledger's size, inserted and committed on this thread. */
import { randomFillSync } from "node:crypto";
import { join } from "node:path";
import { systemClock } from "../src/base/clock.ts";
import { newRecordId, parsePrincipalId, parseRequestId, parseTenantId, type RandomFill } from "../src/base/ids.ts";
import { seedBytes, sequence } from "../src/ledger/append/sequence.ts";
import type { NewRecord } from "../src/ledger/ports/record.ts";
import { writeRecord } from "../src/ledger/record/record-text.ts";
import { openConnection } from "../src/stores/sqlite/connection.ts";
import { migrateSqlite } from "../src/stores/sqlite/schema/migrate.ts";

const random: RandomFill = (bytes) => randomFillSync(bytes);

/** A decision of usual size: 1.1 kB as a record. */
export function makeRecord(tenant: number): NewRecord {
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

/** The same rows, made beforehand, inserted on this thread: what SQLite itself can do. */
export function measureRaw(directory: string, batch: number, measureMs: number, warmUpMs: number): number {
  const path = join(directory, `raw-${batch}.db`);
  migrateSqlite({ path, random, busyTimeoutMs: 1_000 });
  const connection = openConnection({ path, readOnly: false, busyTimeoutMs: 1_000 });
  const entry = connection.prepare(
    "INSERT INTO entries (tenant_id, leaf_index, record_id, leaf, sealed) VALUES (?, ?, ?, ?, ?)",
  );
  const opening = connection.prepare("INSERT INTO openings (tenant_id, record_id, opening) VALUES (?, ?, ?)");
  const head = { origin: "bench.example/logs/0", size: 1, lastRecordedAtMs: 0 };
  const sample = sequence(
    head,
    [writeRecord(makeRecord(0))],
    systemClock.now(),
    random(new Uint8Array(seedBytes(1))),
    "",
  ).entries[0];
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
