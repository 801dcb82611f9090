/** Threads that call the threads of an embedded store which another one supervises. */
import type { Worker } from "node:worker_threads";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import {
  openSharedSqliteStores,
  openSqliteStores,
  type SharedSqliteStore,
  type SqliteStores,
} from "../../src/stores/sqlite/open-ledger.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import { type SqliteFixture, sqliteFixture } from "./ledger-sqlite-fixture.ts";

const clock = manualClock();
const random = seededRandom();
const makeRecord = recordMaker(clock, random);
const alice = tenant("alice");
const storeThreads: Worker[] = [];
const warnings: { readonly role?: string; readonly cause?: string }[] = [];
let fixture: SqliteFixture;
let owner: Awaited<ReturnType<typeof openSqliteStores>>;
let guests: SqliteStores[];

const noteThread = (thread: Worker) => void storeThreads.push(thread);

beforeEach(async () => {
  process.on("worker", noteThread);
  storeThreads.length = 0;
  warnings.length = 0;
  fixture = sqliteFixture();
  owner = await openSqliteStores({
    ...fixture.store,
    originPrefix: "ledger.example/logs",
    ...{ clock, random },
    logger: { warn: (fields) => void warnings.push(fields) },
  });
  guests = await Promise.all([guest(), guest()]);
});
afterEach(async () => {
  process.off("worker", noteThread);
  for (const { ledger } of guests) await ledger.close();
  await owner.ledger.close();
  await fixture.remove();
});

const guest = () => openSharedSqliteStores(owner.share().message as SharedSqliteStore, { clock, random });

test("all of them write one log without gaps, and read each other's records", async () => {
  const ledgers = [owner.ledger, ...guests.map(({ ledger }) => ledger)];
  const appended = await Promise.all(
    Array.from({ length: 60 }, (_, i) => ledgers[i % ledgers.length]?.append(makeRecord(alice))),
  );
  expect(appended.map((each) => each?.leafIndex).sort((a = 0, b = 0) => a - b)).toEqual(
    Array.from({ length: 60 }, (_, i) => i + 1),
  );
  for (const each of appended)
    for (const ledger of ledgers)
      expect(await ledger.find(alice, each?.recordId as NonNullable<typeof each>["recordId"])).toMatchObject({
        tenant_id: alice,
      });
  await fixture.verify();
});

test("a thread of the store that dies is replaced for all of them, and nothing that was answered is lost", async () => {
  const first = await guests[0]?.ledger.append(makeRecord(alice));
  // The first that was started is the one that writes.
  const [writer] = storeThreads;
  const lost = guests[1]?.ledger.append(makeRecord(alice));
  await writer?.terminate();
  // In time before the end of the thread, or refused: never unanswered.
  await lost?.then(
    ({ leafIndex }) => expect(leafIndex).toBe(2),
    (error: unknown) => expect(error).toMatchObject({ reason: "store_unavailable" }),
  );
  await vi.waitFor(() => expect(warnings.map(({ role }) => role)).toContain("writer"));
  for (const each of guests)
    await expect
      .poll(() => each.ledger.append(makeRecord(alice)).catch(() => undefined), { timeout: 20_000 })
      .toMatchObject({ leafIndex: expect.any(Number) });
  expect(await owner.ledger.find(alice, first?.recordId as NonNullable<typeof first>["recordId"])).toMatchObject({
    tenant_id: alice,
  });
  await fixture.verify();
});
