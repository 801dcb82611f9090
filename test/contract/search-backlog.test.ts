/** Leaves that wait for the search index of the embedded store: found all the same, whichever process writes and reads it. */
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { ServiceLedger } from "../../src/ledger/append/ledger.ts";
import type { SearchTerm } from "../../src/ledger/ports/search.ts";
import { logNameOf } from "../../src/ledger/tlog/log-name.ts";
import { StoredSearchIndexer } from "../../src/stores/sql/search-indexer.ts";
import { segmentLeaves } from "../../src/stores/sql/term-segment.ts";
import { openSqliteAdministration, openSqliteDatabase } from "../../src/stores/sqlite/operators.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import { type SqliteFixture, sqliteFixture } from "./ledger-sqlite-fixture.ts";
import { indexRows, settle } from "./settled-search.ts";

const clock = manualClock();
const random = seededRandom("backlog");
const makeRecord = recordMaker(clock, random);
const alice = tenant("alice");
const machine = { clock, random };
/** Of a record, and so of what the index has of a leaf. */
const termsOfLeaf = 4;

let fixture: SqliteFixture;
/** Two processes on one file. */
let ledgers: ServiceLedger[];

beforeEach(async () => {
  fixture = sqliteFixture();
  ledgers = [await fixture.open(machine), await fixture.open(machine)];
});
afterEach(async () => {
  for (const ledger of ledgers) await ledger.close();
  await fixture.remove();
});

const ledgerAt = (place: number) => ledgers[place] as ServiceLedger;

async function append(count: number, by = 0): Promise<readonly { readonly recordId: string; readonly log: string }[]> {
  return Promise.all(Array.from({ length: count }, () => ledgerAt(by).append(makeRecord(alice))));
}

async function leavesOf(log: string, ...terms: readonly SearchTerm[]): Promise<readonly number[]> {
  const leaves: number[] = [];
  let after: number | undefined;
  do {
    const page = await ledgerAt(1).search(logNameOf(log), { terms, limit: 300, ...(after !== undefined && { after }) });
    leaves.push(...(page?.found ?? []).map(({ leafIndex }) => leafIndex));
    after = page?.next;
  } while (after !== undefined);
  return leaves;
}

const bySubject: SearchTerm = { field: "subject", value: "subject-1" };

/** The leaves that the index has anything of. */
function storedLeaves(): ReadonlySet<number> {
  return new Set(indexRows(fixture.query).map(({ leafIndex }) => leafIndex));
}

function waitingLeaves() {
  const [row, ...others] = fixture.query("SELECT filled_to, size FROM search_keys JOIN log_heads USING (tenant_id)");
  expect(others).toEqual([]);
  return { first: row?.filled_to as number, end: row?.size as number };
}

/** Every leaf is in the index or may wait, few may, and a search finds all. */
async function expectFound(log: string): Promise<void> {
  const size = fixture.query("SELECT size FROM log_heads")[0]?.size as number;
  const leaves = Array.from({ length: size }, (_, leaf) => leaf);
  const { first, end } = waitingLeaves();
  expect(end - first).toBeLessThan(segmentLeaves);
  const stored = storedLeaves();
  const missing = leaves.filter((leaf) => !stored.has(leaf) && (leaf < first || leaf >= end));
  expect(missing).toEqual([]);
  expect(await leavesOf(log, bySubject)).toEqual(leaves);
  await fixture.verify();
}

test("the newest leaves wait, are found, and go into the index together", async () => {
  const [first] = await append(1);
  const log = first?.log ?? "";
  expect(storedLeaves()).toEqual(new Set());
  await expectFound(log);
  while (storedLeaves().size === 0) {
    expect(waitingLeaves().first).toBe(0);
    await append(1);
    await expectFound(log);
  }
  const { first: end } = waitingLeaves();
  expect([...storedLeaves()]).toEqual(Array.from({ length: end }, (_, leaf) => leaf));
  await append(segmentLeaves);
  expect(waitingLeaves().first).toBe(end + segmentLeaves);
  await expectFound(log);
});

test("what waits of many appends is what the index has of them afterwards", async () => {
  const [first] = await append(1);
  const log = first?.log ?? "";
  const step = fc.record({
    count: fc.constantFrom(1, 1, 2, 3, 17, segmentLeaves - 1, segmentLeaves, 2 * segmentLeaves + 5),
    by: fc.constantFrom(0, 1),
    after: fc.constantFrom("nothing", "nothing", "reopen", "settle", "reindex"),
  });
  const property = fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 5 }), async (steps) => {
    for (const { count, by, after } of steps) {
      await append(count, by);
      if (after === "settle") await settle(fixture.path);
      if (after === "reindex") await reindex();
      if (after === "reopen") {
        await ledgerAt(by).close();
        ledgers[by] = await fixture.open(machine);
      }
      await expectFound(log);
    }
  });
  await fc.assert(property, { numRuns: 6 });
  await settle(fixture.path);
  const size = fixture.query("SELECT size FROM log_heads")[0]?.size as number;
  // The genesis leaf is found by who called, and by that call.
  expect(indexRows(fixture.query)).toHaveLength(termsOfLeaf * (size - 1) + 3);
}, 120_000);

async function reindex(): Promise<void> {
  const indexer = new StoredSearchIndexer(openSqliteDatabase(fixture.store), { random, pause: async () => {} });
  await indexer.rebuild(alice, () => {});
  await indexer.close();
}

test("what is erased while it waits never gets into the index", async () => {
  const records = await append(10);
  const [first] = records;
  const administration = openSqliteAdministration({ ...fixture.store, ...machine, pause: async () => {} });
  const erased = await administration.erase(alice, [records[4]?.recordId as never], { reason: "r", operator: "o" });
  await administration.close();
  if ("refused" in erased) throw new Error("The erasure was refused.");
  const leaves = new Set(erased.erased.map(({ leafIndex }) => leafIndex));
  expect(leaves.size).toBe(1);
  const others = (await leavesOf(first?.log ?? "", bySubject)).length;
  expect(others).toBe(10);
  await append(2 * segmentLeaves);
  for (const leaf of leaves) expect(storedLeaves().has(leaf)).toBe(false);
  await fixture.verify();
  expect((await leavesOf(first?.log ?? "", bySubject)).length).toBe(others + 2 * segmentLeaves);
});

test("what is damaged while it waits is found once it is repaired", async () => {
  const [first] = await append(1);
  await append(3 * segmentLeaves);
  const [, damaged] = await append(3);
  const damage = () => fixture.damage(alice, damaged?.recordId ?? "");
  await damage();
  // The other process has not appended it, and reads it again.
  for (let at = 0; at < 2 * segmentLeaves; at++) await append(1, 1);
  expect(fixture.query("SELECT 1 FROM search_segments WHERE length(terms) = 0")).toHaveLength(1);
  await expect(leavesOf(first?.log ?? "", bySubject)).rejects.toThrow();
  // Damaged twice, it is what it was.
  await damage();
  expect(await leavesOf(first?.log ?? "", bySubject)).toHaveLength(waitingLeaves().end);
  await fixture.verify();
});
