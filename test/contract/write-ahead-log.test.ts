/** The write-ahead log of an embedded store is copied into the file beside the commits, and stays bounded. */
import { statSync, unlinkSync } from "node:fs";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { ServiceLedger } from "../../src/ledger/append/ledger.ts";
import { openSqliteLedger } from "../../src/stores/sqlite/open-ledger.ts";
import { FaultControl } from "./ledger-faulty-connection.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import { type SqliteFixture, sqliteFixture } from "./ledger-sqlite-fixture.ts";

const clock = manualClock();
const random = seededRandom();
const makeRecord = recordMaker(clock, random);
const alice = tenant("alice");
const mib = 1024 * 1024;
let fixture: SqliteFixture;
let gate: FaultControl;
let ledger: ServiceLedger;

beforeEach(async () => {
  fixture = sqliteFixture();
  gate = new FaultControl("checkpoints");
  ledger = await openSqliteLedger({
    ...fixture.store,
    originPrefix: "ledger.example/logs",
    ...{ clock, random },
    connection: { module: new URL("./ledger-faulty-connection.ts", import.meta.url), data: gate.cells },
  });
});
afterEach(async () => {
  gate.release("checkpoints");
  await ledger.close();
  await fixture.remove();
});

const sizeBytes = (suffix = "") => statSync(fixture.path + suffix).size;
const content = "x".repeat(mib);
let revisions = 0;
const write = () => ledger.keepPolicyRevision(`sha256:${revisions++}`, content);

test("a commit waits for no checkpoint, and the last pages are copied after the others", async () => {
  do await write();
  while (sizeBytes("-wal") <= 33 * mib);
  await vi.waitUntil(() => gate.begun("checkpoints") > 0, { timeout: 20_000 });
  const before = sizeBytes("-wal");
  expect(before).toBeGreaterThan(32 * mib);
  expect(sizeBytes()).toBeLessThan(8 * mib);
  for (let writes = 0; writes < 8; writes++) await ledger.append(makeRecord(alice));
  expect(sizeBytes()).toBeLessThan(8 * mib);
  gate.release("checkpoints");
  await vi.waitUntil(() => sizeBytes() > 32 * mib, { timeout: 20_000 });
  await vi.waitUntil(async () => {
    // Begins the log again: it does not get longer.
    await write();
    return (fixture.query("PRAGMA wal_checkpoint(NOOP)")[0]?.log as number) < 1_024;
  });
  await fixture.verify();
});

test("the write-ahead log stays bounded under steady load", async () => {
  gate.release("checkpoints");
  let longest = 0;
  for (let writes = 0; writes < 120; writes++) {
    await Promise.all([write(), ledger.append(makeRecord(alice))]);
    longest = Math.max(longest, sizeBytes("-wal"));
  }
  expect(gate.begun("checkpoints")).toBeGreaterThan(1);
  expect(longest).toBeLessThan(100 * mib);
  await fixture.verify();
});

test("the write-ahead log is bounded if the thread that copies it is stuck", async () => {
  for (let writes = 0; writes < 150; writes++) await write();
  expect(gate.begun("checkpoints")).toBe(1);
  expect(sizeBytes()).toBeGreaterThan(100 * mib);
  expect(sizeBytes("-wal")).toBeLessThan(140 * mib);
});

test("a deleted write-ahead log is not copied by another thread, and records of its store are refused", async () => {
  while (gate.begun("checkpoints") === 0) await write();
  unlinkSync(`${fixture.path}-wal`);
  gate.release("checkpoints");
  await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject({ reason: "store_unavailable" });
});
