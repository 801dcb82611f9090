/** What a search index of the embedded store has in segments: found, verified, erased and swept. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { ServiceLedger } from "../../src/ledger/append/ledger.ts";
import { auditLog } from "../../src/ledger/audit/audit.ts";
import { companionChecks } from "../../src/ledger/audit/companions.ts";
import type { SearchTerm } from "../../src/ledger/ports/search.ts";
import { logNameOf } from "../../src/ledger/tlog/log-name.ts";
import { StoredSearchIndexer } from "../../src/stores/sql/search-indexer.ts";
import { segmentLeaves, unpackTerms } from "../../src/stores/sql/term-segment.ts";
import { openSqliteAdministration, openSqliteArchive, openSqliteDatabase } from "../../src/stores/sqlite/operators.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import { type SqliteFixture, sqliteFixture } from "./ledger-sqlite-fixture.ts";
import { indexRows } from "./settled-search.ts";

const clock = manualClock();
const random = seededRandom("segments");
const makeRecord = recordMaker(clock, random);
const alice = tenant("alice");
const statement = { reason: "r", operator: "o" };

let fixture: SqliteFixture;
let ledger: ServiceLedger;
let records: readonly { readonly recordId: string; readonly log: string; readonly leafIndex: number }[];

beforeEach(async () => {
  fixture = sqliteFixture();
  ledger = await fixture.open({ clock, random });
  const appended = [];
  // Over the end of a block, with some that wait.
  for (let i = 0; i < 17; i++)
    appended.push(
      ...(await Promise.all(Array.from({ length: segmentLeaves }, () => ledger.append(makeRecord(alice))))),
    );
  records = appended;
  expect(segments().length).toBeGreaterThan(14);
});
afterEach(async () => {
  await ledger.close();
  await fixture.remove();
});

const segments = () => fixture.query("SELECT first_leaf, terms FROM search_segments ORDER BY first_leaf");
const size = () => records.length + 1;
const subject: SearchTerm = { field: "subject", value: "subject-1" };

async function leavesOf(...terms: readonly SearchTerm[]): Promise<readonly number[]> {
  const leaves: number[] = [];
  for (let after: number | undefined, more = true; more; ) {
    const name = logNameOf(records[0]?.log ?? "");
    const page = await ledger.search(name, { terms, limit: 1_000, ...(after !== undefined && { after }) });
    leaves.push(...(page?.found ?? []).map(({ leafIndex }) => leafIndex));
    after = page?.next;
    more = after !== undefined;
  }
  return leaves;
}

/** What the audit says of what stands beside the log. */
async function problems(): Promise<readonly string[]> {
  const archive = openSqliteArchive(fixture.store);
  try {
    const [head] = await archive.logs();
    if (head === undefined) throw new Error("There is no log.");
    const checks = companionChecks(await archive.companions(head), head, clock.now());
    await auditLog(archive.log(head), { checks });
    return checks.flatMap((check) => check.problems).map(({ message }) => message);
  } finally {
    await archive.close();
  }
}

const allLeaves = () => Array.from({ length: size() }, (_, leaf) => leaf);

test("a term of many finds all of them, and one of one record finds it, in every segment", async () => {
  expect(await leavesOf(subject)).toEqual(allLeaves());
  const { request_id: value } = (await ledger.find(alice, records[500]?.recordId as never)) as { request_id: string };
  const ofOne = await leavesOf({ field: "request_id", value }, subject);
  expect(ofOne).toContain(records[500]?.leafIndex);
  expect(await problems()).toEqual([]);
});

test("what is erased is in no segment any more, and the rest is found", async () => {
  const erased = [records[70], records[71], records[1_030]].map((record) => record?.recordId as never);
  const gone = [records[70], records[71], records[1_030]].map((record) => record?.leafIndex as number);
  const before = indexRows(fixture.query);
  const administration = openSqliteAdministration({ ...fixture.store, clock, random, pause: async () => {} });
  await administration.erase(alice, erased, statement);
  await administration.close();
  const after = indexRows(fixture.query);
  expect(after.filter(({ leafIndex }) => gone.includes(leafIndex))).toEqual([]);
  expect(after.filter(({ leafIndex }) => leafIndex < 1_000)).toEqual(
    before.filter(({ leafIndex }) => leafIndex < 1_000 && !gone.includes(leafIndex)),
  );
  expect((await leavesOf(subject)).filter((leaf) => leaf < size())).toEqual(
    allLeaves().filter((leaf) => !gone.includes(leaf)),
  );
  expect(await problems()).toEqual([]);
});

test("a segment of which all is erased goes", async () => {
  const [segment] = segments();
  const leaves = new Set(
    unpackTerms(segment?.first_leaf as number, segment?.terms as Uint8Array).map(({ leafIndex }) => leafIndex),
  );
  const ids = records.filter(({ leafIndex }) => leaves.has(leafIndex)).map(({ recordId }) => recordId as never);
  const administration = openSqliteAdministration({ ...fixture.store, clock, random, pause: async () => {} });
  await administration.erase(alice, ids, statement);
  await administration.close();
  // The genesis leaf stays.
  const rest = unpackTerms(0, segments()[0]?.terms as Uint8Array).map(({ leafIndex }) => leafIndex);
  expect(new Set(rest)).toEqual(new Set([0]));
  expect(await problems()).toEqual([]);
});

test("an index that is rebuilt leaves no segment of the one before", async () => {
  const indexer = new StoredSearchIndexer(openSqliteDatabase(fixture.store), { random, pause: async () => {} });
  await indexer.rebuild(alice, () => {});
  await indexer.close();
  expect(fixture.query("SELECT DISTINCT generation FROM search_segments")).toEqual([{ generation: 2 }]);
  expect(new Set(indexRows(fixture.query).map(({ leafIndex }) => leafIndex))).toEqual(new Set(allLeaves()));
  expect(await leavesOf(subject)).toEqual(allLeaves());
  expect(await problems()).toEqual([]);
});

test.each([
  ["a term too few", "terms = substr(terms, 25)", /leaf \d+ is not found by all of its terms/],
  [
    "a bit too many",
    "terms = CAST(terms || zeroblob(16) || x'0000000000000080' AS BLOB)",
    /leaf \d+ is found by terms that it does not have/,
  ],
])("the audit names %s", async (_name, change, problem) => {
  const first = segments()[1]?.first_leaf as number;
  fixture.query(`UPDATE search_segments SET ${change} WHERE first_leaf = ${first}`);
  expect(await problems()).toContainEqual(expect.stringMatching(problem));
});

test("a segment that no log has is named", async () => {
  fixture.query("UPDATE search_segments SET first_leaf = 9000, end_leaf = 9001 WHERE first_leaf = 0");
  const archive = openSqliteArchive(fixture.store);
  expect(await archive.orphanRows()).toEqual([{ tenantId: alice, table: "search_segments", name: "leaf 9000" }]);
  await archive.close();
});
