/** Leaves that wait for a database's search index, and its segments: searches find them, whatever replicas write. */
import fc from "fast-check";
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { ServiceLedger } from "../../src/ledger/append/ledger.ts";
import { auditLog } from "../../src/ledger/audit/audit.ts";
import { companionChecks } from "../../src/ledger/audit/companions.ts";
import type { SearchTerm } from "../../src/ledger/ports/search.ts";
import { logNameOf } from "../../src/ledger/tlog/log-name.ts";
import { clientOptions } from "../../src/stores/postgres/connection/client-options.ts";
import { queriesOf } from "../../src/stores/postgres/connection/connection.ts";
import {
  openPostgresAdministration,
  openPostgresArchive,
  openPostgresDatabase,
} from "../../src/stores/postgres/operators.ts";
import { StoredSearchIndexer } from "../../src/stores/sql/search-indexer.ts";
import { leavesInSegments } from "../../src/stores/sql/search-segments.ts";
import { segmentLeaves } from "../../src/stores/sql/term-segment.ts";
import { type SharedPostgres, sharedPostgres } from "../harness/shared-postgres.ts";
import { type PostgresFixture, postgresFixture } from "./ledger-postgres-fixture.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import { indexRows, settlePostgres } from "./settled-search-postgres.ts";

const clock = manualClock();
const random = seededRandom("segments");
const makeRecord = recordMaker(clock, random);
const alice = tenant("alice");
const machine = { clock, random };
const statement = { reason: "r", operator: "o" };

let server: SharedPostgres;
let fixture: PostgresFixture;
/** Two replicas. */
let ledgers: ServiceLedger[];

beforeAll(async () => {
  server = await sharedPostgres();
}, 60_000);
afterAll(() => server.stop());
beforeEach(async () => {
  fixture = await postgresFixture(server);
  ledgers = [await fixture.open(machine), await fixture.open(machine)];
});
afterEach(async () => {
  for (const ledger of ledgers) await ledger.close();
  await fixture.remove();
});

const ledgerAt = (place: number) => ledgers[place] as ServiceLedger;
const noTerm = new Uint8Array(16);
const bySubject: SearchTerm = { field: "subject", value: "subject-1" };

async function append(count: number, by = 0) {
  const requestIds = Array.from({ length: count }, () => `q-${random(new Uint8Array(8)).join("")}`);
  return Promise.all(
    requestIds.map(async (requestId) => {
      const record = makeRecord(alice, { requestId: requestId as never });
      return { ...(await ledgerAt(by).append(record)), requestId };
    }),
  );
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

async function index() {
  const [row] = await fixture.query(
    "SELECT filled_to::float8, size::float8 FROM search_keys JOIN log_heads USING (tenant_id)",
  );
  return { filledTo: Number(row?.filled_to), size: Number(row?.size) };
}

const segments = () => fixture.query("SELECT first_leaf, end_leaf, terms FROM search_segments ORDER BY first_leaf");

/** What `ledger verify` says of the index. */
async function problems(): Promise<readonly string[]> {
  const archive = await openPostgresArchive({ target: fixture.target, anchorPath: undefined, clock });
  try {
    const [head] = await archive.logs();
    if (head === undefined) throw new Error("There is no log.");
    const checks = companionChecks(await archive.companions(head), head, clock.now());
    await auditLog(archive.log(head), { checks });
    const orphans = (await archive.orphanRows()).map(({ table, name }) => `${table} ${name}`);
    return [...checks.flatMap((check) => check.problems).map(({ message }) => message), ...orphans];
  } finally {
    await archive.close();
  }
}

/** Few leaves wait, all others are in the index, and a search finds every one. */
async function expectFound(log: string, requestIds: readonly { leafIndex: number; requestId: string }[] = []) {
  const { filledTo, size } = await index();
  const leaves = Array.from({ length: size }, (_, leaf) => leaf);
  expect(size - filledTo).toBeLessThan(segmentLeaves);
  const stored = new Set((await indexRows(fixture.query, alice)).map(({ leafIndex }) => leafIndex));
  expect(leaves.filter((leaf) => leaf < filledTo && !stored.has(leaf))).toEqual([]);
  expect(await leavesOf(log, bySubject)).toEqual(leaves);
  for (const { leafIndex, requestId } of requestIds) {
    const found = await leavesOf(log, { field: "request_id", value: requestId }, bySubject);
    expect(found.filter((leaf) => leaf > 0)).toEqual([leafIndex]);
  }
  expect(await problems()).toEqual([]);
}

async function reindex(): Promise<void> {
  const indexer = new StoredSearchIndexer(
    await openPostgresDatabase({ target: fixture.target, anchorPath: undefined }),
    { random, pause: async () => {} },
  );
  await indexer.rebuild(alice, () => {});
  await indexer.close();
}

async function erase(...ids: readonly string[]): Promise<void> {
  const options = { target: fixture.target, anchorPath: undefined, ...machine };
  const administration = await openPostgresAdministration(options);
  const erased = await administration.erase(alice, ids as never, statement);
  await administration.close();
  expect(erased).not.toHaveProperty("refused");
}

test("the newest leaves wait, and get into the index together, whichever replica appends", async () => {
  const [first] = await append(1);
  const step = fc.record({
    count: fc.constantFrom(1, 1, 2, 3, 17, segmentLeaves - 1, segmentLeaves, 2 * segmentLeaves + 5),
    by: fc.constantFrom(0, 1),
    after: fc.constantFrom("nothing", "nothing", "reopen", "settle", "reindex"),
  });
  const property = fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 5 }), async (steps) => {
    for (const { count, by, after } of steps) {
      const appended = await append(count, by);
      if (after === "settle") await settlePostgres(fixture.target);
      if (after === "reindex") await reindex();
      if (after === "reopen") {
        await ledgerAt(by).close();
        ledgers[by] = await fixture.open(machine);
      }
      await expectFound(first?.log ?? "", appended.slice(0, 2));
    }
  });
  await fc.assert(property, { numRuns: 6 });
  await append(3 * segmentLeaves);
  expect((await segments()).length).toBeGreaterThan(1);
}, 120_000);

test("a batch written in parts continues from the waiting leaves that it has read", async () => {
  const [first] = await append(1);
  // Each round begins at another distance from the end of a segment.
  for (let round = 0; round < 5; round++) {
    const records = [...(await append(round % 2 === 0 ? 20 : 33, 1)), ...(await append(150, 0))];
    await expectFound(first?.log ?? "", records.slice(-2));
  }
}, 20_000);

test("appended one at a time, each term stands once in a segment", async () => {
  const records = [];
  for (let at = 0; at < 2 * segmentLeaves; at++) records.push(...(await append(1, at % 2)));
  for (const { terms } of await segments()) {
    const entries = Array.from({ length: (terms as Buffer).length / 24 }, (_, at) =>
      (terms as Buffer).subarray(at * 24, at * 24 + 16).toString("hex"),
    );
    expect(new Set(entries).size).toBe(entries.length);
  }
  expect((await segments()).length).toBeGreaterThan(0);
  await expectFound(records[0]?.log ?? "", records);
});

test("what is erased while it waits never gets into the index", async () => {
  const [first] = await append(1);
  await reindex();
  const records = await append(10);
  await erase(records[4]?.recordId ?? "");
  await append(2 * segmentLeaves);
  const gone = records[4]?.leafIndex;
  expect((await indexRows(fixture.query, alice)).filter(({ leafIndex }) => leafIndex === gone)).toEqual([]);
  expect(await leavesOf(first?.log ?? "", bySubject)).not.toContain(gone);
  expect(await problems()).toEqual([]);
});

test("what is damaged while it waits is found once it is repaired", async () => {
  const [first] = await append(1);
  await append(3 * segmentLeaves);
  const records = await append(3);
  const damaged = records[1];
  const damage = () => fixture.damage(alice, damaged?.recordId ?? "");
  await damage();
  const { filledTo } = await index();
  expect(damaged?.leafIndex).toBeGreaterThanOrEqual(filledTo);
  // The other replica has not appended it, and reads it again.
  for (let at = 0; at < 2 * segmentLeaves; at++) await append(1, 1);
  expect((await index()).filledTo).toBeGreaterThan(damaged?.leafIndex ?? 0);
  const emptied = (await segments()).filter(({ terms }) => (terms as Buffer).length === 0);
  expect(emptied).toHaveLength(1);
  await expect(leavesOf(first?.log ?? "", bySubject)).rejects.toThrow();
  // Damaged twice, it is what it was.
  await damage();
  for (const { leafIndex, requestId } of records)
    expect(await leavesOf(first?.log ?? "", { field: "request_id", value: requestId }, bySubject)).toEqual([leafIndex]);
  expect(await problems()).toEqual([]);
  await reindex();
  await expectFound(first?.log ?? "", records);
});

test("what is erased is in no segment any more, and the rest is found", async () => {
  const records = await append(5 * segmentLeaves);
  const log = records[0]?.log ?? "";
  const gone = [70, 71, 200].map((at) => records[at]);
  const before = await indexRows(fixture.query, alice);
  await erase(...gone.map((record) => record?.recordId ?? ""));
  const leaves = gone.map((record) => record?.leafIndex);
  const isLeft = ({ leafIndex }: { leafIndex: number }) => !leaves.includes(leafIndex);
  const after = await indexRows(fixture.query, alice);
  expect(after.filter((row) => !isLeft(row))).toEqual([]);
  expect(after.filter(({ leafIndex }) => leafIndex < 250)).toEqual(
    before.filter((row) => row.leafIndex < 250 && isLeft(row)),
  );
  expect((await leavesOf(log, bySubject)).slice(0, 5 * segmentLeaves - 2)).toEqual(
    Array.from({ length: 5 * segmentLeaves + 1 }, (_, leafIndex) => leafIndex).filter((leaf) => !leaves.includes(leaf)),
  );
  expect(await problems()).toEqual([]);
});

/** Erases 320 records, more than one transaction takes. Resolves with the segments; two tables have what was before. */
async function eraseAfterBackup() {
  const records = await append(10 * segmentLeaves);
  await fixture.query(
    `CREATE TABLE backup_openings AS SELECT * FROM openings; CREATE TABLE backup_segments AS SELECT * FROM search_segments`,
  );
  const gone = records.filter((_, at) => at % 2 === 0).map(({ recordId }) => recordId);
  await erase(...gone.slice(0, 200));
  await erase(...gone.slice(200));
  return segments();
}

test("what a backup brings back of many erasures is removed again, and other segments are left alone", async () => {
  const erased = await eraseAfterBackup();
  const [withOpening, withTerms, withBoth] = [1, 4, 9].map((at) => Number(erased[at]?.first_leaf));
  await fixture.query(
    `INSERT INTO openings SELECT * FROM backup_openings WHERE record_id IN
       (SELECT record_id FROM erasures WHERE leaf_index IN
         (SELECT min(leaf_index) FROM erasures WHERE leaf_index >= ${withOpening}
          UNION SELECT min(leaf_index) FROM erasures WHERE leaf_index >= ${withBoth}));
     UPDATE search_segments SET terms = backup.terms FROM backup_segments backup
      WHERE backup.first_leaf = search_segments.first_leaf AND backup.generation = search_segments.generation
        AND backup.first_leaf IN (${withTerms}, ${withBoth})`,
  );
  const versions = () => fixture.query("SELECT first_leaf, xmin::text AS version FROM search_segments");
  const before = new Map((await versions()).map(({ first_leaf, version }) => [Number(first_leaf), version]));
  const options = { target: fixture.target, anchorPath: undefined, ...machine };
  const administration = await openPostgresAdministration(options);
  expect((await administration.reapplyErasures(alice, { reason: "a backup", operator: "op" })).reapplied).toHaveLength(
    2,
  );
  await administration.close();
  expect(await segments()).toEqual(erased);
  const written = (await versions()).filter(({ first_leaf, version }) => before.get(Number(first_leaf)) !== version);
  expect(written.map(({ first_leaf }) => Number(first_leaf)).sort((one, other) => one - other)).toEqual([
    withTerms,
    withBoth,
  ]);
  // The last is beyond what one transaction takes.
  expect(new Set(written.map(({ version }) => version)).size).toBe(2);
  expect(await problems()).toEqual([]);
});

test("what a removal that was interrupted has left of erased records is removed by the next one", async () => {
  const erased = await eraseAfterBackup();
  const [withOpening, withTerms] = [1, 9].map((at) => Number(erased[at]?.first_leaf));
  await fixture.query(
    `INSERT INTO openings SELECT * FROM backup_openings WHERE record_id IN
       (SELECT record_id FROM erasures WHERE leaf_index IN
         (SELECT min(leaf_index) FROM erasures WHERE leaf_index >= ${withOpening}));
     UPDATE search_segments SET terms = backup.terms FROM backup_segments backup
      WHERE backup.first_leaf = search_segments.first_leaf AND backup.generation = search_segments.generation
        AND backup.first_leaf IN (${withTerms})`,
  );
  // A later transaction than the first fails, as where the command is killed.
  await fixture.query(`
    CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'gone'; END $$;
    CREATE TRIGGER fails BEFORE UPDATE ON search_segments FOR EACH ROW WHEN (OLD.first_leaf = ${withTerms}) EXECUTE FUNCTION fails()`);
  const options = { target: fixture.target, anchorPath: undefined, ...machine };
  const administration = await openPostgresAdministration(options);
  await expect(administration.reapplyErasures(alice, { reason: "a backup", operator: "op" })).rejects.toThrow();
  await fixture.query("DROP TRIGGER fails ON search_segments");
  expect((await administration.reapplyErasures(alice, { reason: "a backup", operator: "op" })).reapplied).toHaveLength(
    1,
  );
  await administration.close();
  expect(await segments()).toEqual(erased);
  expect(await problems()).toEqual([]);
});

test("the audit names what a segment lacks", async () => {
  await append(3 * segmentLeaves);
  await fixture.query("UPDATE search_segments SET terms = substr(terms, 25) WHERE length(terms) > 24");
  expect(await problems()).toContainEqual(expect.stringMatching(/leaf \d+ is not found by all of its terms/));
  await fixture.query("UPDATE search_segments SET first_leaf = 9000, end_leaf = 9001 WHERE first_leaf = 0");
  expect(await problems()).toContainEqual("search_segments leaf 9000");
}, 20_000);

test("an index that is far behind catches up, whatever the size of the records", async () => {
  const [first] = await append(1);
  await append(3 * segmentLeaves);
  const large = { attributes: { padding: "x".repeat(300_000) } };
  for (let at = 0; at < 24; at++) await ledgerAt(0).append(makeRecord(alice, { request: large }));
  await fixture.query("DELETE FROM search_segments; UPDATE search_keys SET filled_to = 0");
  const behind: number[] = [];
  for (let at = 0; at < 80; at++) {
    await append(1, at % 2);
    const { size, filledTo } = await index();
    behind.push(size - filledTo);
  }
  expect(behind.at(-1)).toBeLessThan(segmentLeaves);
  await expectFound(first?.log ?? "");
}, 20_000);

test("a look says how many bytes of segments it has gone through", async () => {
  await append(5 * segmentLeaves);
  const [key] = await fixture.query("SELECT generation FROM search_keys");
  const client = new Client(clientOptions({ target: fixture.target }, 0));
  await client.connect();
  try {
    const all = await segments();
    const look = (first: number, end: number) =>
      leavesInSegments(queriesOf(client), alice, { first, end, generation: Number(key?.generation) }, [noTerm]);
    const bytesOf = (rows: typeof all) => rows.reduce((sum, { terms }) => sum + (terms as Buffer).length, 0);
    expect(await look(0, 10_000)).toEqual({ leaves: [], bytes: bytesOf(all) });
    expect(await look(0, Number(all[1]?.first_leaf))).toEqual({ leaves: [], bytes: bytesOf(all.slice(0, 1)) });
    expect(await look(9_000, 10_000)).toEqual({ leaves: [], bytes: 0 });
  } finally {
    await client.end();
  }
});
