/** The thread that reads an embedded store is there from the first record or question on, and not before. */
import type { Worker } from "node:worker_threads";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { ServiceLedger } from "../../src/ledger/append/ledger.ts";
import { openSqliteLedger } from "../../src/stores/sqlite/open-ledger.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import { type SqliteFixture, sqliteFixture } from "./ledger-sqlite-fixture.ts";

const clock = manualClock();
const random = seededRandom();
const makeRecord = recordMaker(clock, random);
const alice = tenant("alice");
const started: Worker[] = [];
const noteThread = (thread: Worker) => void started.push(thread);
let fixture: SqliteFixture;
let ledger: ServiceLedger;

beforeEach(async () => {
  started.length = 0;
  process.on("worker", noteThread);
  fixture = sqliteFixture();
  ledger = await openSqliteLedger({ ...fixture.store, originPrefix: "ledger.example/logs", clock, random });
});
afterEach(async () => {
  process.off("worker", noteThread);
  await ledger.close();
  await fixture.remove();
});

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
