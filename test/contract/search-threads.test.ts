/** Searches of an embedded store delay no other call, and are not given up because others are before them. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { ServiceLedger } from "../../src/ledger/append/ledger.ts";
import type { Appended } from "../../src/ledger/ports/ledger.ts";
import { logNameOf } from "../../src/ledger/tlog/log-name.ts";
import { FaultControl } from "./ledger-faulty-connection.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import { type SqliteFixture, sqliteFixture } from "./ledger-sqlite-fixture.ts";

const clock = manualClock();
const random = seededRandom();
const makeRecord = recordMaker(clock, random);
const alice = tenant("alice");
const responseTimeoutMs = 60_000;
const warnings: unknown[] = [];
let fixture: SqliteFixture;
let ledger: ServiceLedger;
let gate: FaultControl;
let one: Appended;

beforeEach(async () => {
  warnings.length = 0;
  fixture = sqliteFixture();
  gate = new FaultControl("searches");
  ledger = await fixture.open({
    clock,
    random,
    threads: { responseTimeoutMs },
    connection: { module: new URL("./ledger-faulty-connection.ts", import.meta.url), data: gate.cells },
    logger: { warn: (fields) => void warnings.push(fields) },
  });
  one = await ledger.append(makeRecord(alice));
});
afterEach(async () => {
  vi.useRealTimers();
  gate.release("searches");
  await ledger.close();
  await fixture.remove();
});

const search = () =>
  ledger.search(logNameOf(one.log), { terms: [{ field: "record_id", value: one.recordId }], limit: 10 });
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
