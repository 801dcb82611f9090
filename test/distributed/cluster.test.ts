/** What a coordinator and two workers do that one server cannot: where rows are, who runs what, and what a loss costs. */
import { beforeEach, describe, expect, test, vi } from "vitest";
import { auditLog } from "../../src/ledger/audit/audit.ts";
import { migratePostgres, migrations, placement } from "../../src/stores/postgres/schema.ts";
import { rebuildIndexes } from "../../src/stores/sql/search-indexer.ts";
import { type PostgresFixture, postgresFixture, targetOf } from "../contract/ledger-postgres-fixture.ts";
import { recordKit, tenant } from "../contract/ledger-records.ts";
import { expectGapless } from "../contract/ledger-suite.ts";
import { startCitus, urlOf } from "../harness/citus.ts";
import { forFile } from "../harness/lifetimes.ts";
import type { PostgresServer } from "../harness/postgres.ts";

const { clock, random, makeRecord } = recordKit();
const alice = tenant("alice");
let fixture: PostgresFixture;

const cluster = await forFile(startCitus({ "citus.enable_stat_counters": "on" }));
beforeEach(async () => {
  fixture = await postgresFixture(cluster.coordinator, { distributed: true });
});

const open = (changes: Partial<Parameters<PostgresFixture["openStores"]>[0]> = {}) =>
  fixture.openStores({ clock, random, ...changes });

function nodeUrl(node: PostgresServer): string {
  return urlOf(node, new URL(fixture.url).pathname.slice(1));
}

/** Every log is audited from the first leaf to the last. */
const expectClean = () =>
  fixture.reading(async (archive) => {
    for (const head of await archive.logs())
      expect(await auditLog(archive, head)).toMatchObject({ leaves: head.size, root: head.root });
  });

describe("migrate --distributed", () => {
  test("assigns every table of the schema, and colocates the tables of tenants", async () => {
    const rows = await fixture.query(`
      SELECT relname, citus_table_type, distribution_column, colocation_id FROM pg_class
        LEFT JOIN citus_tables ON table_name = pg_class.oid
       WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`);
    const tablesWhere = (condition: (row: Record<string, unknown>) => boolean) =>
      rows
        .filter(condition)
        .map(({ relname }) => relname)
        .toSorted();
    expect(tablesWhere(({ citus_table_type: type }) => type === null)).toEqual([]);
    expect(tablesWhere(({ citus_table_type: type }) => type === "local")).toEqual(placement.onCoordinator);
    expect(tablesWhere(({ distribution_column: column }) => column === "tenant_id")).toEqual(
      placement.byTenant.toSorted(),
    );
    expect(tablesWhere(({ citus_table_type: type }) => type === "reference")).toEqual(placement.everywhere.toSorted());
    const groups = rows.filter(({ distribution_column: column }) => column === "tenant_id");
    expect(new Set(groups.map(({ colocation_id: group }) => group)).size).toBe(1);
  });

  test("runs once under concurrency, and includes existing rows", async () => {
    const target = targetOf(await cluster.coordinator.createDatabase());
    const plain = { target };
    await migratePostgres({ target, random });
    const before = await open(plain);
    const receipt = await before.ledger.append(makeRecord(alice));
    await before.ledger.close();
    const runs = await Promise.all([1, 2].map(() => migratePostgres({ target, random, distributed: true })));
    expect(runs.map(({ length }) => length).toSorted((a, b) => a - b)).toEqual([
      0,
      Object.values(placement).flatMap((tables) => (Array.isArray(tables) ? tables : Object.keys(tables))).length,
    ]);
    const after = await open(plain);
    expect(await after.ledger.append(makeRecord(alice))).toMatchObject({ leafIndex: receipt.leafIndex + 1 });
  });

  test("distributes tables that a later migration adds, without an option", async () => {
    const later = [...migrations, { name: "later", sql: "ALTER TABLE entries ADD COLUMN note text" }];
    await fixture.query("SELECT undistribute_table('cosignatures')");
    expect(await migratePostgres({ target: fixture.target, random, migrations: later })).toEqual([
      "later",
      "distribute cosignatures",
    ]);
  });

  test("refuses a database without the extension, or without workers, and leaves nothing", async () => {
    const target = targetOf(cluster.coordinator.url);
    await expect(migratePostgres({ target, random, distributed: true })).rejects.toThrow("no extension `citus`");
    expect(await cluster.coordinator.query("SELECT FROM pg_tables WHERE schemaname = 'public'")).toEqual([]);
  });

  test("and a gateway refuse a node that is not durable", async () => {
    const [worker] = cluster.workers as [PostgresServer];
    await worker.query("ALTER SYSTEM SET synchronous_commit = off");
    const reload = () => worker.query("SELECT pg_reload_conf()");
    const shown = async () => (await worker.query("SHOW synchronous_commit"))[0]?.synchronous_commit;
    await reload();
    try {
      await vi.waitFor(async () => expect(await shown()).toBe("off"));
      await expect(open()).rejects.toThrow("synchronous_commit off");
      await expect(migratePostgres({ target: fixture.target, random, distributed: true })).rejects.toThrow(
        "synchronous_commit off",
      );
    } finally {
      await worker.query("ALTER SYSTEM RESET synchronous_commit");
      await reload();
      await vi.waitFor(async () => expect(await shown()).toBe("on"));
    }
  });
});

test("gateways on coordinator and worker append to one log, in one order", async () => {
  const [worker] = cluster.workers as [PostgresServer];
  const first = await open();
  const second = await open({ target: targetOf(nodeUrl(worker)) });
  const receipts = await Promise.all(
    Array.from({ length: 60 }, (_, turn) =>
      (turn % 2 === 0 ? first : second).ledger.append(makeRecord(tenant(turn % 3 === 0 ? "bob" : "alice"))),
    ),
  );
  const own = receipts.filter((_, turn) => turn % 3 !== 0).map(({ leafIndex }) => leafIndex);
  expect(own.toSorted((a, b) => a - b)).toEqual(own.map((_, position) => position + 1));
  await expectGapless(fixture, "alice", own.length + 1);
  await expectClean();
});

/** Statements that the coordinator has sent to several shards, and to one. */
async function counted(): Promise<{ readonly several: number; readonly one: number }> {
  const [row] = await fixture.query(
    `SELECT query_execution_multi_shard AS several, query_execution_single_shard AS one
       FROM citus_stat_counters WHERE name = current_database()`,
  );
  return { several: Number(row?.several), one: Number(row?.one) };
}

test("statements of a tenant run on one shard, whatever the server's plan", async () => {
  const { ledger } = await open();
  await ledger.append(makeRecord(alice));
  const administration = await fixture.administration({ clock, random });
  await using database = await fixture.database();
  const before = await counted();
  const idempotency = { payloadDigest: `sha256:${"1".repeat(64)}`, answer: { accepted: true } };
  // More often than the server waits before it takes one plan for all parameters.
  for (let turn = 0; turn < 8; turn += 1) {
    const record = makeRecord(alice);
    const scope = turn.toString(16).repeat(64);
    await ledger.append({ ...record, idempotency: { ...idempotency, scope } });
    await ledger.append({ ...makeRecord(alice), idempotency: { ...idempotency, scope } });
    await ledger.find(alice, record.recordId);
    const { subject } = record.caller;
    const page = await ledger.search({ tenantId: alice, terms: [{ field: "subject", value: subject }], limit: 100 });
    expect(page.found.map(({ recordId }) => recordId)).toContain(record.recordId);
    await administration.placeHold({ tenantId: alice, recordId: undefined, reason: "case" });
    await administration.releaseHold(alice, undefined, { reason: "request 6", operator: "olga" });
    await administration.erase(alice, [record.recordId], { reason: "request 7", operator: "olga" });
    await rebuildIndexes(database, alice, { random, pause: async () => {}, onProgress: () => {} });
  }
  await administration.close();
  const after = await counted();
  expect(after.one - before.one).toBeGreaterThan(8 * 20);
  expect(after.several - before.several).toBe(0);
});

test("a worker that crashes under load loses nothing acknowledged, and its tenants are back with it", async () => {
  const { ledger } = await open({ timeoutMs: 2_000 });
  const names = Array.from({ length: 8 }, (_, position) => `tenant-${position}`);
  const acknowledged: { readonly name: string; readonly recordId: string; readonly leafIndex: number }[] = [];
  const refused = new Set<string>();
  const servedWhileDown = new Set<string>();
  let isDown = false;
  let isDone = false;
  const write = async (name: string) => {
    while (!isDone) {
      const record = makeRecord(tenant(name));
      const appended = await ledger.append(record).catch(() => undefined);
      if (appended !== undefined) acknowledged.push({ name, recordId: record.recordId, leafIndex: appended.leafIndex });
      if (appended === undefined) refused.add(name);
      else if (isDown) servedWhileDown.add(name);
    }
  };
  const writers = names.map(write);
  const [worker] = cluster.workers as [PostgresServer];
  try {
    await vi.waitFor(() => expect(acknowledged.length).toBeGreaterThan(100), 30_000);
    await worker.kill();
    isDown = true;
    await vi.waitFor(() => {
      expect(refused.size).toBeGreaterThan(0);
      expect(new Set([...refused, ...servedWhileDown]).size).toBe(names.length);
    }, 30_000);
    isDown = false;
    await worker.restart();
    const mark = acknowledged.length;
    await vi.waitFor(() => expect(new Set(acknowledged.slice(mark).map(({ name }) => name)).size).toBe(8), 30_000);
  } finally {
    isDone = true;
    await Promise.all(writers);
  }
  expect(servedWhileDown.size).toBeGreaterThan(0);
  for (const name of names) {
    const rows = await fixture.rows(name);
    expect(rows.map(({ leafIndex }) => leafIndex)).toEqual(rows.map((_, position) => position));
    for (const { recordId, leafIndex } of acknowledged.filter((one) => one.name === name))
      expect(rows[leafIndex]?.recordId).toBe(recordId);
  }
  await expectClean();
});
