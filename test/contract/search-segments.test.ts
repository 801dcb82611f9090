/** Leaves that wait for a search index, and its segments: on every store searches find them, whichever process writes. */
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import type { ServiceLedger } from "../../src/ledger/append/ledger.ts";
import type { SearchTerm } from "../../src/ledger/ports/search.ts";
import { segmentLeaves, unpackTerms } from "../../src/stores/sql/term-segment.ts";
import { draws } from "../harness/draws.ts";
import { forFile } from "../harness/lifetimes.ts";
import { sharedPostgres } from "../harness/shared-postgres.ts";
import { statement } from "./erasure-suite.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { recordKit, tenant } from "./ledger-records.ts";
import { sqliteFixture } from "./ledger-sqlite-fixture.ts";
import { indexRows } from "./settled-search.ts";
import type { StoreFixture } from "./store-fixture.ts";

const { clock, random, makeRecord } = recordKit("segments");
const alice = tenant("alice");
const machine = { clock, random };
const bySubject: SearchTerm = { field: "subject", value: "subject-1" };
/** Of a record, and so of what the index has of a leaf. */
const termsOfLeaf = 4;

const server = await forFile(sharedPostgres());

const sqlitePlace = async () => sqliteFixture();
const postgresPlace = () => postgresFixture(server);

let fixture: StoreFixture;
/** Two processes on one store. */
let ledgers: ServiceLedger[];

async function begin(place: () => Promise<StoreFixture>): Promise<void> {
  fixture = await place();
  ledgers = [await open(), await open()];
}

const open = () => fixture.open(machine) as Promise<ServiceLedger>;
const ledgerAt = (place: number) => ledgers[place] as ServiceLedger;
const query = async (sql: string): Promise<Record<string, unknown>[]> => fixture.query(sql);
const rows = () => indexRows(query, alice);
const allLeaves = (size: number) => Array.from({ length: size }, (_, leaf) => leaf);

async function append(count: number, by = 0) {
  const requestIds = Array.from({ length: count }, () => `q-${random(new Uint8Array(8)).join("")}`);
  return Promise.all(
    requestIds.map(async (requestId) => {
      const record = makeRecord(alice, { requestId: requestId as never });
      return { ...(await ledgerAt(by).append(record)), requestId };
    }),
  );
}

async function leavesOf(...terms: readonly SearchTerm[]): Promise<readonly number[]> {
  const leaves: number[] = [];
  let after: number | undefined;
  do {
    const page = await ledgerAt(1).search({
      tenantId: alice,
      terms,
      limit: 300,
      ...(after !== undefined && { after }),
    });
    leaves.push(...page.found.map(({ leafIndex }) => leafIndex));
    after = page.next;
  } while (after !== undefined);
  return leaves;
}

async function index() {
  const [row] = await query("SELECT filled_to, size FROM search_keys JOIN log_heads USING (tenant_id)");
  return { filledTo: Number(row?.filled_to), size: Number(row?.size) };
}

const segments = () => query("SELECT first_leaf, end_leaf, terms FROM search_segments ORDER BY first_leaf");

/** What `ledger verify` says of the index. */
const problems = () => fixture.problems(clock.now());

/** Few leaves wait, all others are in the index, and a search finds every one. */
async function expectFound(requestIds: readonly { leafIndex: number; requestId: string }[] = []) {
  const { filledTo, size } = await index();
  const leaves = allLeaves(size);
  expect(size - filledTo).toBeLessThan(segmentLeaves);
  const stored = new Set((await rows()).map(({ leafIndex }) => leafIndex));
  expect(leaves.filter((leaf) => leaf < filledTo && !stored.has(leaf))).toEqual([]);
  expect(await leavesOf(bySubject)).toEqual(leaves);
  for (const { leafIndex, requestId } of requestIds) {
    const found = await leavesOf({ field: "request_id", value: requestId }, bySubject);
    expect(found.filter((leaf) => leaf > 0)).toEqual([leafIndex]);
  }
  expect(await problems()).toEqual([]);
}

const reindex = () => fixture.rebuild(alice, machine);

async function erase(...ids: readonly string[]): Promise<void> {
  const erased = await fixture.administering(machine, (administration) =>
    administration.erase(alice, ids as never, statement),
  );
  expect(erased).not.toHaveProperty("refused");
}

describe.each([
  ["SQLite", sqlitePlace],
  ["PostgreSQL", postgresPlace],
] as const)("%s", (_name, place) => {
  beforeEach(() => begin(place));

  test("waiting leaves of many appends are indexed later, whichever process appends", async () => {
    await append(1);
    const step = fc.record({
      count: fc.constantFrom(1, 1, 2, 3, 17, segmentLeaves - 1, segmentLeaves, 2 * segmentLeaves + 5),
      by: fc.constantFrom(0, 1),
      after: fc.constantFrom("nothing", "nothing", "reopen", "settle", "reindex"),
    });
    const property = fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 5 }), async (steps) => {
      for (const { count, by, after } of steps) {
        const appended = await append(count, by);
        if (after === "settle") await fixture.settle();
        if (after === "reindex") await reindex();
        if (after === "reopen") {
          await ledgerAt(by).close();
          ledgers[by] = await open();
        }
        await expectFound(appended.slice(0, 2));
      }
    });
    await fc.assert(property, { numRuns: draws(3, 6) });
    await append(3 * segmentLeaves);
    expect((await segments()).length).toBeGreaterThan(1);
    await fixture.settle();
    // The genesis leaf is found by who called, and by that call.
    expect(await rows()).toHaveLength(termsOfLeaf * ((await index()).size - 1) + 3);
  }, 120_000);

  test("a batch written in parts continues from the waiting leaves that it has read", async () => {
    await append(1);
    // Each round begins at another distance from the end of a segment.
    for (let round = 0; round < 5; round++) {
      const records = [...(await append(round % 2 === 0 ? 20 : 33, 1)), ...(await append(150, 0))];
      await expectFound(records.slice(-2));
    }
  }, 20_000);

  test("a leaf that is erased while it waits never enters the index", async () => {
    await append(1);
    await reindex();
    const records = await append(10);
    await erase(records[4]?.recordId ?? "");
    await append(2 * segmentLeaves);
    const gone = records[4]?.leafIndex;
    expect((await rows()).filter(({ leafIndex }) => leafIndex === gone)).toEqual([]);
    expect(await leavesOf(bySubject)).not.toContain(gone);
    expect(await problems()).toEqual([]);
  });

  test("a leaf that is damaged while it waits is found once it is repaired and indexed again", async () => {
    await append(1);
    await append(3 * segmentLeaves);
    const records = await append(3);
    const damaged = records[1];
    const damage = () => fixture.damage(alice, damaged?.recordId ?? "");
    await damage();
    const { filledTo } = await index();
    expect(damaged?.leafIndex).toBeGreaterThanOrEqual(filledTo);
    // The other process has not appended it, and reads it again.
    for (let at = 0; at < 2 * segmentLeaves; at++) await append(1, 1);
    expect((await index()).filledTo).toBeGreaterThan(damaged?.leafIndex ?? 0);
    expect(await leavesOf(bySubject)).not.toContain(damaged?.leafIndex);
    // Damaged twice, it is what it was.
    await damage();
    expect(await problems()).toEqual([
      `leaf ${damaged?.leafIndex} is not found by all of its terms: ledger reindex rebuilds the index`,
    ]);
    await reindex();
    expect(await problems()).toEqual([]);
    await expectFound(records);
  });

  test("an erased leaf is removed from its segment, and the rest is found", async () => {
    const records: Awaited<ReturnType<typeof append>> = [];
    // Over the end of a block, with some that wait.
    for (let i = 0; i < 17; i++) records.push(...(await append(segmentLeaves)));
    const { request_id: value } = (await ledgerAt(0).find(alice, records[500]?.recordId as never)) as {
      request_id: string;
    };
    expect(await leavesOf({ field: "request_id", value }, bySubject)).toContain(records[500]?.leafIndex);
    const erased = [70, 71, 1_030].map((at) => records[at]);
    const leaves = erased.map((record) => record?.leafIndex);
    const isLeft = ({ leafIndex }: { leafIndex: number }) => !leaves.includes(leafIndex);
    const before = await rows();
    await erase(...erased.map((record) => record?.recordId ?? ""));
    const after = await rows();
    expect(after.filter((row) => !isLeft(row))).toEqual([]);
    expect(after.filter(({ leafIndex }) => leafIndex < 1_000)).toEqual(
      before.filter((row) => row.leafIndex < 1_000 && isLeft(row)),
    );
    expect((await leavesOf(bySubject)).filter((leaf) => leaf <= records.length)).toEqual(
      allLeaves(records.length + 1).filter((leaf) => !leaves.includes(leaf)),
    );
    expect(await problems()).toEqual([]);
  });

  test("a segment whose leaves are all erased is removed", async () => {
    const records = await append(4 * segmentLeaves);
    const leavesAt = (segment: Record<string, unknown> | undefined) =>
      new Set(unpackTerms(Number(segment?.first_leaf), segment?.terms as Uint8Array).map(({ leafIndex }) => leafIndex));
    const leaves = leavesAt((await segments())[0]);
    await erase(...records.filter(({ leafIndex }) => leaves.has(leafIndex)).map(({ recordId }) => recordId));
    // The genesis leaf stays.
    expect(leavesAt((await segments())[0])).toEqual(new Set([0]));
    expect(await problems()).toEqual([]);
  });

  test.each([
    ["a term too few", (hex: string) => hex.slice(2 * 24), /leaf \d+ is not found by all of its terms/],
    [
      "a bit too many",
      (hex: string) => `${hex}${"00".repeat(23)}80`,
      /leaf \d+ is found by terms that it does not have/,
    ],
  ])(
    "the audit names %s, and a segment without a log",
    async (_what, change, problem) => {
      await append(3 * segmentLeaves);
      const [, segment] = await segments();
      const terms = fixture.blob(change(Buffer.from(segment?.terms as Uint8Array).toString("hex")));
      await query(`UPDATE search_segments SET terms = ${terms} WHERE first_leaf = ${segment?.first_leaf}`);
      expect(await problems()).toContainEqual(expect.stringMatching(problem));
      await query("UPDATE search_segments SET first_leaf = 9000, end_leaf = 9001 WHERE first_leaf = 0");
      expect(await problems()).toContainEqual("search_segments leaf 9000");
    },
    20_000,
  );

  test("an index that is far behind catches up, whatever the size of the records", async () => {
    await append(1);
    await append(3 * segmentLeaves);
    const large = { attributes: { padding: "x".repeat(300_000) } };
    for (let at = 0; at < 24; at++) await ledgerAt(0).append(makeRecord(alice, { request: large }));
    await query("DELETE FROM search_segments");
    await query("UPDATE search_keys SET filled_to = 0");
    const behind: number[] = [];
    for (let at = 0; at < 80; at++) {
      await append(1, at % 2);
      const { size, filledTo } = await index();
      behind.push(size - filledTo);
    }
    expect(behind.at(-1)).toBeLessThan(segmentLeaves);
    await expectFound();
  }, 20_000);
});

test("on PostgreSQL, terms of erased records that an interrupted removal left are removed by the next one", async () => {
  await begin(postgresPlace);
  const records = await append(10 * segmentLeaves);
  await query(
    `CREATE TABLE backup_openings AS SELECT * FROM openings; CREATE TABLE backup_segments AS SELECT * FROM search_segments`,
  );
  // 320 records, more than one transaction takes.
  const gone = records.filter((_, at) => at % 2 === 0).map(({ recordId }) => recordId);
  await erase(...gone.slice(0, 200));
  await erase(...gone.slice(200));
  const erased = await segments();
  const [withOpening, withTerms] = [1, 9].map((at) => Number(erased[at]?.first_leaf));
  await query(
    `INSERT INTO openings SELECT * FROM backup_openings WHERE record_id IN
     (SELECT record_id FROM erasures WHERE leaf_index IN
       (SELECT min(leaf_index) FROM erasures WHERE leaf_index >= ${withOpening}));
   UPDATE search_segments SET terms = backup.terms FROM backup_segments backup
    WHERE backup.first_leaf = search_segments.first_leaf
      AND backup.first_leaf IN (${withTerms})`,
  );
  // A later transaction than the first fails, as where the command is killed.
  await query(`
  CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'gone'; END $$;
  CREATE TRIGGER fails BEFORE UPDATE ON search_segments FOR EACH ROW WHEN (OLD.first_leaf = ${withTerms}) EXECUTE FUNCTION fails()`);
  const reapply = () =>
    fixture.administering(machine, (administration) => administration.reapplyErasures(alice, statement));
  await expect(reapply()).rejects.toThrow();
  await query("DROP TRIGGER fails ON search_segments");
  expect((await reapply()).reapplied).toHaveLength(1);
  expect(await segments()).toEqual(erased);
  expect(await problems()).toEqual([]);
});
