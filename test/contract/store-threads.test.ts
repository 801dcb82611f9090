/** Threads of an embedded store beside the one that writes: for reads, for searches, for copies of the write-ahead log. */
import { statSync, unlinkSync } from "node:fs";
import type { Worker } from "node:worker_threads";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { ServiceLedger } from "../../src/ledger/append/ledger.ts";
import type { Appended } from "../../src/ledger/ports/ledger.ts";
import { logNameOf } from "../../src/ledger/tlog/log-name.ts";
import { FaultControl } from "./ledger-faulty-connection.ts";
import { recordKit, tenant } from "./ledger-records.ts";
import { type SqliteFixture, sqliteFixture } from "./ledger-sqlite-fixture.ts";

const { clock, random, makeRecord } = recordKit();
const alice = tenant("alice");
let fixture: SqliteFixture;
let ledger: ServiceLedger;
let gate: FaultControl;

async function open(held?: "searches" | "checkpoints", more: object = {}): Promise<void> {
  fixture = sqliteFixture();
  gate = new FaultControl(held);
  ledger = await fixture.open({ clock, random, setup: gate.setup, ...more });
}
afterEach(() => {
  vi.useRealTimers();
  for (const held of ["searches", "checkpoints"] as const) gate.release(held);
});

describe("the thread that reads is there from the first record or question on, and not before", () => {
  const started: Worker[] = [];
  const noteThread = (thread: Worker) => void started.push(thread);
  beforeEach(async () => {
    started.length = 0;
    process.on("worker", noteThread);
    await open();
  });
  afterEach(() => void process.off("worker", noteThread));

  test("the first record starts the reader thread, and a check includes it from then on", async () => {
    const { recordId } = await ledger.append(makeRecord(alice));
    await vi.waitFor(() => expect(started).toHaveLength(2));
    expect(await ledger.find(alice, recordId)).toMatchObject({ record_id: recordId });
    await ledger.check();
    await started[1]?.terminate();
    await vi.waitFor(() => expect(ledger.check()).rejects.toMatchObject({ reason: "store_unavailable" }));
    await vi.waitFor(() => ledger.check());
    expect(started).toHaveLength(3);
  });

  test("a question before any record starts the reader thread, and waits for it", async () => {
    expect(await ledger.find(alice, makeRecord(alice).recordId)).toBe("unknown");
    expect(started).toHaveLength(2);
  });

  test("a question is refused while the reader thread fails to start, and answered once it runs", async () => {
    process.once("worker", (reader) => void reader.terminate());
    const asked = ledger.find(alice, makeRecord(alice).recordId);
    await expect(asked).rejects.toMatchObject({ reason: "store_unavailable" });
    await vi.waitFor(() => expect(ledger.find(alice, makeRecord(alice).recordId)).resolves.toBe("unknown"));
    await vi.waitFor(() => expect(started).toHaveLength(3));
  });

  test("a question that waits for the reader thread is refused if the ledger closes", async () => {
    const asked = expect(ledger.find(alice, makeRecord(alice).recordId)).rejects.toMatchObject({
      reason: "store_unavailable",
    });
    await ledger.close();
    await asked;
  });
});

describe("searches delay no other call, and are not given up because others are before them", () => {
  const responseTimeoutMs = 60_000;
  const warnings: unknown[] = [];
  let one: Appended;
  beforeEach(async () => {
    warnings.length = 0;
    const logger = { info() {}, warn: (fields: unknown) => void warnings.push(fields) };
    await open("searches", { responseTimeoutMs, logger });
    one = await ledger.append(makeRecord(alice));
  });

  const search = () =>
    ledger.search({ tenantId: alice, terms: [{ field: "record_id", value: one.recordId }], limit: 10 });
  const begun = (count: number) => vi.waitFor(() => expect(gate.begun("searches")).toBe(count), { timeout: 20_000 });

  test("records are found, and the log read, while searches run", async () => {
    const searches = Array.from({ length: 300 }, search);
    await begun(1);
    expect(await ledger.find(alice, one.recordId)).toMatchObject({ record_id: one.recordId });
    expect(await ledger.checkpoint(logNameOf(one.log))).toContain(one.log);
    await ledger.check();
    gate.release("searches", 300);
    for (const page of await Promise.all(searches)) expect(page?.found).toHaveLength(1);
    expect(warnings).toEqual([]);
  });

  test("the time that a search waits for others does not count", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const searches = [search(), search(), search()];
    for (const [position, each] of searches.entries()) {
      await vi.waitUntil(() => gate.begun("searches") === position + 1, { timeout: 20_000 });
      vi.advanceTimersByTime(responseTimeoutMs * 0.9);
      gate.release("searches", 1);
      expect((await each)?.found).toHaveLength(1);
    }
    expect(warnings).toEqual([]);
  });

  test("a search that exceeds its time is ended, with its thread only", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const stuck = search();
    const refused = expect(stuck).rejects.toMatchObject({ reason: "store_unavailable" });
    await vi.waitUntil(() => gate.begun("searches") === 1, { timeout: 20_000 });
    vi.advanceTimersByTime(responseTimeoutMs);
    await refused;
    expect(warnings).toMatchObject([{ role: "searcher" }]);
    expect(await ledger.find(alice, one.recordId)).toMatchObject({ record_id: one.recordId });
  });
});

describe("the write-ahead log", () => {
  const mib = 1024 * 1024;
  beforeEach(() => open("checkpoints"));
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
});
