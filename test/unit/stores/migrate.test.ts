import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { seedBytes, sequence } from "../../../src/ledger/append/sequence.ts";
import { writeRecord } from "../../../src/ledger/record/record-text.ts";
import { RightEdge } from "../../../src/ledger/tlog/right-edge.ts";
import { leafHash } from "../../../src/ledger/tlog/tree.ts";
import { openConnection } from "../../../src/stores/sqlite/connection.ts";
import { openSqliteLedger } from "../../../src/stores/sqlite/open-ledger.ts";
import { migrateSqlite, requireNewestSchema } from "../../../src/stores/sqlite/schema/migrate.ts";
import { type Migration, migrations } from "../../../src/stores/sqlite/schema/schema.ts";
import { manualClock, recordMaker, seededRandom, storeIn, tenant } from "../../contract/ledger-records.ts";

let directory: string;
let path: string;
const random = seededRandom();

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "migrate-"));
  path = join(directory, "a", "b", "platform.db");
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const migrate = (known = migrations) => migrateSqlite({ path, random, busyTimeoutMs: 1_000, migrations: known });

function inspect<Result>(look: (database: DatabaseSync) => Result): Result {
  const database = new DatabaseSync(path);
  try {
    return look(database);
  } finally {
    database.close();
  }
}

test("a new file is private, as are its directories, and gets the whole schema once", () => {
  expect(migrate()).toEqual(migrations.map(({ name }) => name));
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
  expect(statSync(dirname(dirname(path))).mode & 0o777).toBe(0o700);
  const identity = inspect((database) => database.prepare("SELECT singleton, store_id FROM store").all());
  expect(identity).toEqual([{ singleton: 1, store_id: expect.stringMatching(/^[0-9a-f]{32}$/) }]);
  expect(migrate()).toEqual([]);
  expect(inspect((database) => database.prepare("SELECT singleton, store_id FROM store").all())).toEqual(identity);
});

test("a file that exists keeps its mode", () => {
  migrate();
  chmodSync(path, 0o640);
  migrate();
  expect(statSync(path).mode & 0o777).toBe(0o640);
});

test("a program goes on with a schema that was only added to, beside the one that added, and starts with it", async () => {
  const paths = { ...storeIn(directory), path };
  const options = { ...paths, originPrefix: "ledger.example", clock: manualClock(), random };
  const makeRecord = recordMaker(options.clock, random);
  const running = await openSqliteLedger(options);
  await running.append(makeRecord(tenant("alice")));
  const more: Migration = {
    name: "more",
    sql: "ALTER TABLE log_heads ADD COLUMN note BLOB; CREATE TABLE more (a)",
    additive: true,
  };
  expect(migrate([...migrations, more])).toEqual(["more"]);
  expect((await running.append(makeRecord(tenant("alice")))).receipt.leafIndex).toBe(2);
  expect(migrate()).toEqual([]);
  const restarted = await openSqliteLedger(options);
  expect((await restarted.append(makeRecord(tenant("bob")))).receipt.leafIndex).toBe(1);
  expect((await running.append(makeRecord(tenant("alice")))).receipt.leafIndex).toBe(3);
  await Promise.all([running.close(), restarted.close()]);
  // What destroys must know all of it.
  const database = openConnection({ path, readOnly: true, busyTimeoutMs: 1_000 });
  expect(() => requireNewestSchema(database, path)).toThrow("newer version");
  database.close();
  // One that changed something is not for programs from before, and what was added after it neither.
  const changed = { name: "changed", sql: "ALTER TABLE log_heads RENAME COLUMN note TO notes" };
  migrate([...migrations, more, changed, { ...more, name: "again", sql: "" }]);
  expect(() => migrate()).toThrow("newer version");
  expect(() => migrate([...migrations, more])).toThrow("newer version");
  expect(migrate([...migrations, more, changed])).toEqual([]);
});

test("what was added since is applied, to the data that is there", () => {
  migrate();
  const added = { name: "more", sql: "ALTER TABLE log_heads ADD COLUMN note BLOB" };
  expect(migrate([...migrations, added])).toEqual(["more"]);
  expect(inspect((database) => database.prepare("SELECT note FROM log_heads").all())).toEqual([]);
});

describe("logs from before there were tiles", () => {
  const makeRecord = recordMaker(manualClock(), random);
  const head = { origin: `o/${"0".repeat(32)}`, size: 0, lastRecordedAtMs: 0 };

  /** A store of the first schema with a log of so many records. */
  function writeOldLog(size: number): void {
    migrate(migrations.slice(0, 1));
    const [first, ...rest] = Array.from({ length: size }, () => writeRecord(makeRecord(tenant("alice"))));
    if (first === undefined) throw new Error("no records");
    const { entries } = sequence(head, [first, ...rest], 0, random(new Uint8Array(seedBytes(size))), "o");
    inspect((database) => {
      database.prepare("INSERT INTO log_heads VALUES ('alice', ?, ?, 0)").run(head.origin, size);
      for (const { leafIndex, recordId, leaf, sealed, opening } of entries) {
        database.prepare("INSERT INTO entries VALUES ('alice', ?, ?, ?, ?)").run(leafIndex, recordId, leaf, sealed);
        database.prepare("INSERT INTO openings VALUES ('alice', ?, ?)").run(recordId, opening);
      }
    });
  }

  test.each([1, 255, 256, 257, 600])("%i records are brought into tiles", (size) => {
    writeOldLog(size);
    expect(migrate()).toContain("tiles");
    const root = inspect((database) => database.prepare("SELECT root FROM log_heads").get()?.root);
    const edge = new RightEdge();
    const leaves = inspect((database) => database.prepare("SELECT leaf FROM entries ORDER BY leaf_index").all());
    for (const { leaf } of leaves) edge.append(leafHash(leaf as Uint8Array));
    expect(Buffer.from(root as Uint8Array)).toEqual(Buffer.from(edge.tree().root()));
    const tiles = inspect((database) => database.prepare("SELECT level, tile_index, hashes FROM tiles").all());
    expect(tiles).toHaveLength(edge.takeTouched().length);
  });

  test.each([
    ["a leaf that is missing", "DELETE FROM entries WHERE leaf_index = 2", "leaf 2 is missing"],
    ["the last leaf missing", "DELETE FROM entries WHERE leaf_index = 4", "leaf 4 is not the last of 5"],
    [
      "a leaf that was changed",
      "UPDATE entries SET leaf = CAST('{}' AS BLOB) WHERE leaf_index = 3",
      "leaf 3 does not verify",
    ],
    [
      "a record that was changed",
      "UPDATE entries SET sealed = zeroblob(99) WHERE leaf_index = 1",
      "leaf 1 does not verify",
    ],
  ])("%s stops the migration, which says where", (_, damage, message) => {
    writeOldLog(5);
    inspect((database) => database.exec(damage));
    expect(() => migrate()).toThrow(message);
    expect(inspect((database) => database.prepare("PRAGMA user_version").get())).toEqual({ user_version: 1 });
  });

  test("a record that was erased is no obstacle", () => {
    writeOldLog(5);
    inspect((database) => database.exec("DELETE FROM openings"));
    expect(migrate()).toContain("tiles");
  });
});

test("records from before there was a search index are found; one that does not open is no obstacle", async () => {
  const paths = { ...storeIn(directory), path };
  const options = { ...paths, originPrefix: "ledger.example", clock: manualClock(), random };
  const makeRecord = recordMaker(options.clock, random);
  const before = await openSqliteLedger(options);
  const ids: string[] = [];
  for (let count = 0; count < 4; count++) ids.push((await before.append(makeRecord(tenant("alice")))).recordId);
  await before.close();
  const version = migrations.findIndex(({ name }) => name === "search");
  inspect((database) => {
    // The store as it was one step before.
    database.exec(`DROP TABLE search_terms; DROP TABLE search_keys; PRAGMA user_version = ${version}`);
    database.prepare("UPDATE entries SET sealed = zeroblob(99) WHERE record_id = ?").run(ids[1] ?? "");
    database.prepare("DELETE FROM openings WHERE record_id = ?").run(ids[2] ?? "");
  });
  migrate(migrations.slice(0, version + 1));
  expect(
    inspect((database) => database.prepare("SELECT DISTINCT leaf_index FROM search_terms ORDER BY 1").all()),
  ).toEqual([0, 1, 4].map((leaf_index) => ({ leaf_index })));
  expect(inspect((database) => database.prepare("SELECT filled_to, fill_end FROM search_keys").all())).toEqual([
    { filled_to: 0, fill_end: 0 },
  ]);
});

test("a step that fails leaves the file as it was", () => {
  migrate();
  const good = { name: "good", sql: "CREATE TABLE good (a)" };
  expect(() => migrate([...migrations, good, { name: "bad", sql: "CREATE TABLE bad (" }])).toThrow();
  expect(inspect((database) => database.prepare("SELECT name FROM sqlite_schema WHERE name = 'good'").all())).toEqual(
    [],
  );
  expect(migrate([...migrations, good])).toEqual(["good"]);
});

test("a newer schema refuses to start, and says why", async () => {
  migrate([...migrations, { name: "future", sql: "CREATE TABLE future (a)" }]);
  const message = `schema version ${migrations.length + 1}; this program knows versions up to ${migrations.length}`;
  await expect(
    openSqliteLedger({ ...storeIn(directory), path, originPrefix: "ledger.example", clock: manualClock(), random }),
  ).rejects.toThrow(message);
});

test("another program's database is refused and left as it is", () => {
  path = join(directory, "other.db");
  inspect((database) => database.exec("CREATE TABLE notes (a)"));
  const before = readFileSync(path);
  expect(() => migrate()).toThrow("another program");
  expect(readFileSync(path)).toEqual(before);
});

test("a file that is no database is refused and left as it is", () => {
  path = join(directory, "text");
  writeFileSync(path, "not a database, only some text that is longer than a header");
  expect(() => migrate()).toThrow("not a database");
  expect(readFileSync(path, "utf8")).toMatch(/^not a database/);
});

test.each(["", "with space", "with+plus", "line\nbreak", "/rooted", "trailing/"])(
  "the origin %j is refused",
  async (originPrefix) => {
    await expect(
      openSqliteLedger({ ...storeIn(directory), path, originPrefix, clock: manualClock(), random }),
    ).rejects.toThrow(RangeError);
  },
);
