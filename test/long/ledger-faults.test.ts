/** What a failing store costs: never an acknowledged record, never an index, and only for as long as it fails. */
import { existsSync, rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { TenantId } from "../../src/base/ids.ts";
import type { Appended, Ledger } from "../../src/ledger/ports/ledger.ts";
import type { SqliteLedgerOptions } from "../../src/stores/sqlite/open-ledger.ts";
import { type Fault, FaultControl } from "../contract/ledger-faulty-connection.ts";
import { recordKit, tenant } from "../contract/ledger-records.ts";
import { type SqliteFixture, sqliteFixture } from "../contract/ledger-sqlite-fixture.ts";
import { expectGapless } from "../contract/ledger-suite.ts";
import { indexRows, settle } from "../contract/settled-search.ts";

const { clock, random, makeRecord } = recordKit();
const alice = tenant("alice");
const refused = { status: "rejected", reason: { reason: "store_unavailable", details: { retryAfterSeconds: 1 } } };

let fixture: SqliteFixture;
let control: FaultControl;
let ledger: Ledger;

async function open(options: Partial<SqliteLedgerOptions> = {}): Promise<void> {
  ledger = await fixture.open({
    clock,
    random,
    busyTimeoutMs: 50,
    setup: control.setup,
    ...options,
  });
}

beforeEach(async () => {
  fixture = sqliteFixture();
  control = new FaultControl();
  await open();
});

/** The store serves again by itself. */
async function recovered(): Promise<void> {
  await vi.waitFor(() => ledger.check(), { timeout: 5_000, interval: 5 });
}

async function expectFound(acknowledged: readonly (Appended & { tenantId: TenantId })[]): Promise<void> {
  for (const { tenantId, recordId } of acknowledged) {
    expect(await ledger.find(tenantId, recordId)).toMatchObject({ record_id: recordId });
  }
}

/** Two records of a tenant that has a log and one of a tenant that has none, in one write. */
function appendThree(newcomer: TenantId, known = alice): Promise<PromiseSettledResult<Appended>[]> {
  const records = [makeRecord(known), makeRecord(known), makeRecord(newcomer)];
  return Promise.allSettled(records.map((record) => ledger.append(record)));
}

/** Every leaf is in the search index, and nothing else is. */
async function expectIndexed(): Promise<void> {
  await settle(fixture.path);
  for (const { tenant_id, size } of fixture.query("SELECT tenant_id, size FROM log_heads")) {
    const leaves = new Set((await indexRows(fixture.query, tenant_id as string)).map(({ leafIndex }) => leafIndex));
    expect([...leaves]).toEqual(Array.from({ length: size as number }, (_, leaf) => leaf));
  }
}

/**
 * BEGIN; the mark of changes; signing keys; heads and search keys of both logs; the anchor of each; the new log's head and
 * search key; the heads; 4 entries; 4 openings; 2 tiles; COMMIT.
 */
const commitOfThree = 21;
/** And on the anchor: BEGIN, 2 advances, COMMIT. */
const operationsOfThree = commitOfThree + 4;
const persisting = new Set<Fault>(["failAfter", "dieAfter"]);

describe.each(["failBefore", "failAfter", "dieBefore", "dieAfter"] satisfies Fault[])(
  "if an operation meets %s",
  (fault) => {
    test("nothing acknowledged is lost, no index is used twice, and the store recovers", {
      timeout: 120_000,
    }, async () => {
      const acknowledged: (Appended & { tenantId: TenantId })[] = [];
      for (let operation = 1; operation <= operationsOfThree; operation++) {
        // Of so few records that none of its leaves goes into the search index yet.
        const known = tenant(`known-${operation}`);
        const newcomer = tenant(`newcomer-${operation}`);
        acknowledged.push({ ...(await ledger.append(makeRecord(known))), tenantId: known });
        control.arm(fault, operation);
        const results = await appendThree(newcomer, known);
        expect(control.isArmed, `operation ${operation} exists`).toBe(false);
        expect(results).toMatchObject([refused, refused, refused]);
        const committed = operation > commitOfThree || (operation === commitOfThree && persisting.has(fault));
        await recovered();
        await expectGapless(fixture, newcomer, committed ? 2 : 0);
        acknowledged.push({ ...(await ledger.append(makeRecord(known))), tenantId: known });
        expect(acknowledged.at(-1)?.leafIndex).toBe(committed ? 4 : 2);
        acknowledged.push({ ...(await ledger.append(makeRecord(newcomer))), tenantId: newcomer });
        await expectGapless(fixture, known, committed ? 5 : 3);
        await expectGapless(fixture, newcomer, committed ? 3 : 2);
        await fixture.verify();
      }
      acknowledged.push({ ...(await ledger.append(makeRecord(alice))), tenantId: alice });
      control.arm(fault, operationsOfThree + 1);
      expect((await appendThree(tenant("newcomer-last"))).map(({ status }) => status)).not.toContain("rejected");
      control.disarm();
      await ledger.close();
      await open();
      await expectFound(acknowledged);
      await expectIndexed();
      await fixture.verify();
    });
  },
);

/** Makes calls while the thread waits for a lock; resolves with what became of them. */
async function whileLocked(calls: () => readonly Promise<unknown>[]): Promise<PromiseSettledResult<unknown>[]> {
  const other = new DatabaseSync(fixture.path);
  other.exec("BEGIN IMMEDIATE");
  const results = Promise.allSettled(calls());
  // The appender writes in the next turn.
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
  other.exec("ROLLBACK");
  other.close();
  return results;
}

test("concurrent writes share a commit, and a refused one is refused alone", async () => {
  await ledger.close();
  await open({ busyTimeoutMs: 5_000, limits: { maxWritesInFlight: 8, maxRecordsPerWrite: 1 } });
  const taken = makeRecord(alice);
  await ledger.append(taken);
  const names = Array.from({ length: 7 }, (_, at) => tenant(`tenant-${at}`));
  const before = control.commits;
  const results = await whileLocked(() => names.map((name) => ledger.append(makeRecord(name))));
  expect(results.map(({ status }) => status)).not.toContain("rejected");
  // The first may have begun alone. Each commit is one of the store and one of the anchor.
  expect(control.commits - before).toBeLessThanOrEqual(4);
  const records = [...names.slice(1).map((name) => makeRecord(name)), taken];
  const refused = (await whileLocked(() => records.map((record) => ledger.append(record)))).map(
    ({ status }) => status === "rejected",
  );
  expect(refused).toEqual(records.map((record) => record === taken));
  for (const name of names.slice(1)) await expectGapless(fixture, name, 3);
  await expectGapless(fixture, "alice", 2);
  await fixture.verify();
});

test("a connection whose rollback failed is replaced", async () => {
  const taken = makeRecord(alice);
  await ledger.append(taken);
  control.arm("failBefore", 6); // BEGIN, 2 versions, signing key, entry (refused: its id is taken), ROLLBACK
  await expect(ledger.append(taken)).rejects.toMatchObject({ reason: "store_unavailable" });
  expect(control.isArmed).toBe(false);
  expect(await ledger.append(makeRecord(alice))).toMatchObject({ leafIndex: 2 });
});

test("a store that stalls is given up in bounded time, and replaced", async () => {
  await ledger.close();
  await open({ responseTimeoutMs: 300 });
  control.arm("stall", 3);
  const [result] = await Promise.allSettled([ledger.append(makeRecord(alice))]);
  expect(result).toMatchObject(refused);
  await recovered();
  expect(await ledger.append(makeRecord(alice))).toMatchObject({ leafIndex: 1 });
});

test("a store that stalls at every commit is replaced after growing delays", async () => {
  await ledger.close();
  const delaysMs: unknown[] = [];
  await open({
    responseTimeoutMs: 100,
    logger: { info() {}, warn: (fields) => "restartInMs" in fields && delaysMs.push(fields.restartInMs) },
  });
  control.arm("stallCommits", 0);
  await vi.waitFor(
    async () => {
      await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject({ reason: "store_unavailable" });
      expect(delaysMs.slice(0, 4)).toEqual([50, 100, 200, 400]);
    },
    { timeout: 10_000, interval: 5 },
  );
  control.disarm();
  await recovered();
});

test("while another process holds the lock, writes are refused in bounded time and reads continue", async () => {
  const { recordId } = await ledger.append(makeRecord(alice));
  const other = new DatabaseSync(fixture.path);
  other.exec("BEGIN IMMEDIATE");
  const [result] = await Promise.allSettled([ledger.append(makeRecord(alice))]);
  expect(result).toMatchObject(refused);
  await expect(ledger.check()).rejects.toMatchObject({ reason: "store_unavailable" });
  expect(await ledger.find(alice, recordId)).toMatchObject({ record_id: recordId });
  other.exec("ROLLBACK");
  other.close();
  await ledger.check();
  expect(await ledger.append(makeRecord(alice))).toMatchObject({ leafIndex: 2 });
});

test("a full disk refuses writes, keeps what was acknowledged, and serves again once there is room", async () => {
  const large = () => makeRecord(alice, { request: { purpose: "x".repeat(20_000) } });
  const first = await ledger.append(large());
  control.limitPages(1); // SQLite takes the present size where that is larger
  const results = [];
  for (let call = 0; call < 5; call++) results.push(...(await Promise.allSettled([ledger.append(large())])));
  expect(results.at(-1)).toMatchObject(refused);
  expect(await ledger.find(alice, first.recordId)).toMatchObject({ record_id: first.recordId });
  control.limitPages(0);
  const stored = results.filter(({ status }) => status === "fulfilled").length;
  expect(await ledger.append(large())).toMatchObject({ leafIndex: 2 + stored });
  await expectGapless(fixture, "alice", 3 + stored);
});

test("a store whose file is gone refuses instead of creating an empty one", async () => {
  await ledger.close();
  const warnings: { readonly role?: string }[] = [];
  const ofWriter = () => warnings.filter(({ role }) => role === "writer");
  await open({ logger: { info() {}, warn: (fields) => warnings.push(fields) } });
  await ledger.append(makeRecord(alice));
  for (const suffix of ["", "-wal", "-shm"]) rmSync(fixture.path + suffix);
  control.arm("dieBefore", 1); // the next thread has to open the file
  await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject({ reason: "store_unavailable" });
  await vi.waitFor(() => expect(ofWriter().length).toBeGreaterThan(3), 10_000);
  expect(ofWriter().at(-1)).toMatchObject({ role: "writer", cause: "unable to open database file" });
  expect(existsSync(fixture.path)).toBe(false);
  await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject({ reason: "store_unavailable" });
  await expect(ledger.check()).rejects.toMatchObject({ reason: "store_unavailable" });
});
