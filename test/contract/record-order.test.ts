/** Stores of both orders of records: one that was made before there was the other goes on, and is written anew on request. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { StoredLedger } from "../../src/ledger/append/ledger.ts";
import type { Appended } from "../../src/ledger/ports/ledger.ts";
import { compactSqlite } from "../../src/stores/sqlite/compact.ts";
import { openConnection } from "../../src/stores/sqlite/connection.ts";
import { SqliteRecordsAdministration } from "../../src/stores/sqlite/erasure/records-administration.ts";
import { isOrderedByRecord } from "../../src/stores/sqlite/schema/record-order.ts";
import { sealStore, unsealStore } from "../../src/stores/sqlite/schema/seal.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import { type SqliteFixture, sqliteFixture } from "./ledger-sqlite-fixture.ts";

const clock = manualClock();
const random = seededRandom("record-order");
const makeRecord = recordMaker(clock, random);
const tenants = ["alice", "bob", "carol"].map(tenant);

let fixture: SqliteFixture;
let ledger: StoredLedger;

beforeEach(async () => {
  fixture = sqliteFixture();
  ledger = await fixture.open({ clock, random });
});
afterEach(async () => {
  await ledger.close();
  await fixture.remove();
});

/** As many records of each tenant. */
async function append(each: number): Promise<readonly Appended[]> {
  const records = tenants.flatMap((tenantId) => Array.from({ length: each }, () => makeRecord(tenantId)));
  return Promise.all(records.map((record) => ledger.append(record)));
}

function onConnection<Result>(work: (connection: ReturnType<typeof openConnection>) => Result): Result {
  const connection = openConnection({ path: fixture.path, readOnly: false, busyTimeoutMs: 1_000 });
  try {
    return work(connection);
  } finally {
    connection.close();
  }
}

const isOrdered = () => onConnection(isOrderedByRecord);

/** What is left of the tables is what a store has whose records begin with the tenant. */
function makeAsReleased(): void {
  onConnection((connection) =>
    connection.exec(`
      DROP TRIGGER search_segments_of_erased;
      CREATE TABLE old (tenant_id TEXT NOT NULL, leaf_index INTEGER NOT NULL CHECK (leaf_index >= 0),
        record_id TEXT NOT NULL, leaf BLOB NOT NULL, sealed BLOB NOT NULL,
        PRIMARY KEY (tenant_id, leaf_index), UNIQUE (tenant_id, record_id)) STRICT;
      INSERT INTO old SELECT * FROM entries; DROP TABLE entries; ALTER TABLE old RENAME TO entries;
      CREATE TABLE old (tenant_id TEXT NOT NULL, record_id TEXT NOT NULL,
        opening BLOB NOT NULL CHECK (length(opening) = 32), PRIMARY KEY (tenant_id, record_id)) STRICT;
      INSERT INTO old SELECT * FROM openings; DROP TABLE openings; ALTER TABLE old RENAME TO openings;
    `),
  );
}

async function reopened(): Promise<void> {
  await ledger.close();
  ledger = await fixture.open({ clock, random });
}

const compact = (rewrite: boolean) =>
  compactSqlite(fixture.path, { nowMs: clock.now(), rewrite, pause: async () => {}, onProgress: () => {} });

async function expectFound(appended: readonly Appended[]): Promise<void> {
  for (const { recordId, log } of appended) {
    const tenantId = await ledger.tenantOf(log.slice(-32));
    expect(await ledger.find(tenantId as (typeof tenants)[0], recordId)).toMatchObject({ record_id: recordId });
  }
}

test("a new store finds records by their id, and of a tenant its own alone", async () => {
  expect(isOrdered()).toBe(true);
  const [first, ...rest] = await append(3);
  await expectFound([first as Appended, ...rest]);
  expect(await ledger.find(tenant("bob"), (first as Appended).recordId)).toBe("unknown");
  await fixture.verify();
});

test("an id is one record's of a tenant, and may be another tenant's too", async () => {
  const record = makeRecord(tenant("alice"));
  await ledger.append(record);
  await expect(ledger.append(record)).rejects.toMatchObject({ code: "internal" });
  await ledger.append({ ...record, tenantId: tenant("bob") });
});

test("a store with records keeps its order until it is written anew, and then has all that it had", async () => {
  const appended = [...(await append(70))];
  await ledger.close();
  makeAsReleased();
  await reopened();
  expect(isOrdered()).toBe(false);
  appended.push(...(await append(2)));
  await ledger.close();
  await compact(false);
  expect(isOrdered()).toBe(false);
  const rows = () => ["entries", "openings"].map((table) => fixture.query(`SELECT * FROM ${table} ORDER BY rowid`));
  const before = rows();
  await compact(true);
  expect(isOrdered()).toBe(true);
  expect(rows()).toEqual(before);
  await reopened();
  appended.push(...(await append(1)));
  await expectFound(appended);
  await fixture.verify();
});

test("a seal that comes while a store is compacted stays on it", async () => {
  await append(2);
  await ledger.close();
  makeAsReleased();
  const seal = () =>
    onConnection((connection) => sealStore(connection, fixture.path, { targetStoreId: "t", attempt: "a" }));
  const options = { nowMs: clock.now(), rewrite: true, pause: async () => seal(), onProgress: () => {} };
  await expect(compactSqlite(fixture.path, options)).rejects.toThrow(/sealed/);
  expect(() => onConnection((connection) => connection.exec("DELETE FROM openings"))).toThrow(/sealed/);
  onConnection((connection) => unsealStore(connection, fixture.path));
  ledger = await fixture.open({ clock, random });
});

test("what is erased after that leaves the segments of the search index", async () => {
  const [first] = await append(140);
  await ledger.close();
  makeAsReleased();
  await compact(true);
  const { recordId, leafIndex } = first as Appended;
  const within = `tenant_id = 'alice' AND first_leaf <= ${leafIndex} AND end_leaf > ${leafIndex}`;
  const bytesOfSegment = () => {
    const [segment] = fixture.query(`SELECT length(terms) AS bytes FROM search_segments WHERE ${within}`);
    return segment?.bytes as number;
  };
  const before = bytesOfSegment();
  const administration = new SqliteRecordsAdministration({ ...fixture.store, clock, random, pause: async () => {} });
  await administration.erase(tenant("alice"), [recordId], { reason: "r", operator: "o" });
  await administration.close();
  expect(bytesOfSegment()).toBeGreaterThan(0);
  expect(bytesOfSegment()).toBeLessThan(before);
  expect(fixture.query("SELECT 1 FROM openings WHERE record_id = ?", recordId)).toEqual([]);
  await reopened();
});
