/** The file of the embedded store: its schema, where it may be, and what a write to it needs. */
import { chmodSync, copyFileSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { beforeEach, expect, test } from "vitest";
import { encodeRecord } from "../../../src/ledger/append/record-text.ts";
import { seedBytes } from "../../../src/ledger/append/sequence.ts";
import { openAnchor } from "../../../src/stores/files/anchor.ts";
import { openConnection, requireSafeBlocks, type SqliteConnection } from "../../../src/stores/files/connection.ts";
import { openSqliteArchive } from "../../../src/stores/sqlite/backend.ts";
import { openSqliteStores } from "../../../src/stores/sqlite/open-ledger.ts";
import { migrateSqlite, migrations } from "../../../src/stores/sqlite/schema.ts";
import { SqliteWriter } from "../../../src/stores/sqlite/writer.ts";
import { manualClock, recordMaker, seededRandom, storeIn, tenant } from "../../contract/ledger-records.ts";
import { folderForTest } from "../../harness/folder.ts";

let directory: string;
let path: string;
const random = seededRandom();

beforeEach(() => {
  directory = folderForTest("migrate");
  path = join(directory, "a", "b", "platform.db");
});

const migrate = (known = migrations) => migrateSqlite({ path, random, migrations: known });

function inspect<Result>(look: (database: DatabaseSync) => Result): Result {
  using database = new DatabaseSync(path);
  return look(database);
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

test("an existing file keeps its mode", () => {
  migrate();
  chmodSync(path, 0o640);
  migrate();
  expect(statSync(path).mode & 0o777).toBe(0o640);
});

test("new steps are applied to existing data", () => {
  migrate();
  const added = { name: "more", sql: "ALTER TABLE log_heads ADD COLUMN note BLOB" };
  expect(migrate([...migrations, added])).toEqual(["more"]);
  expect(inspect((database) => database.prepare("SELECT note FROM log_heads").all())).toEqual([]);
});

test("a failing step leaves the file unchanged", () => {
  migrate();
  const good = { name: "good", sql: "CREATE TABLE good (a)" };
  expect(() => migrate([...migrations, good, { name: "bad", sql: "CREATE TABLE bad (" }])).toThrow();
  expect(inspect((database) => database.prepare("SELECT name FROM sqlite_schema WHERE name = 'good'").all())).toEqual(
    [],
  );
  expect(migrate([...migrations, good])).toEqual(["good"]);
});

test("a store with an unknown schema version is refused in one line, by every command", async () => {
  migrate([...migrations, { name: "future", sql: "CREATE TABLE future (a)" }]);
  const before = readFileSync(path);
  const message = `schema version ${migrations.length + 1}; this program knows versions up to ${migrations.length}`;
  const paths = { ...storeIn(directory), path };
  await expect(
    openSqliteStores({ ...paths, originPrefix: "ledger.example", clock: manualClock(), random }),
  ).rejects.toThrow(message);
  expect(() => migrate()).toThrow(message);
  expect(() => openSqliteArchive(paths)).toThrow(message);
  expect(() => openSqliteArchive(paths)).toThrow(/^[^\n]*$/);
  expect(readFileSync(path)).toEqual(before);
});

test("a store without a schema is not read", () => {
  migrate([]);
  expect(() => openSqliteArchive({ ...storeIn(directory), path })).toThrow("run `migrate` first");
});

test("another program's database is refused and left unchanged", () => {
  path = join(directory, "other.db");
  inspect((database) => database.exec("CREATE TABLE notes (a)"));
  const before = readFileSync(path);
  expect(() => migrate()).toThrow("another program");
  expect(readFileSync(path)).toEqual(before);
});

test("a file that is no database is refused and left unchanged", () => {
  path = join(directory, "text");
  writeFileSync(path, "not a database, only some text that is longer than a header");
  expect(() => migrate()).toThrow("not a database");
  expect(readFileSync(path, "utf8")).toMatch(/^not a database/);
});

test("a new store has pages for several records; an existing one keeps its page size", () => {
  const pageSize = () => inspect((database) => database.prepare("PRAGMA page_size").get());
  migrate();
  expect(pageSize()).toEqual({ page_size: 8_192 });
  path = join(directory, "older.db");
  inspect((database) => database.exec("PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; VACUUM"));
  migrate();
  expect(pageSize()).toEqual({ page_size: 4_096 });
});

test.each([
  [512, false],
  [1024, false],
  [2048, false],
  [4096, true],
  [1024 * 1024, true],
])("a file system with blocks of %d bytes is accepted: %s", (bsize, isTaken) => {
  const statfs = (() => ({ bsize })) as unknown as Parameters<typeof requireSafeBlocks>[1];
  const check = () => requireSafeBlocks("/var/lib/svc/none/platform.db", statfs);
  if (isTaken) expect(check).not.toThrow();
  else expect(check).toThrow(`blocks of ${bsize} bytes`);
});

const key = new Uint8Array(32);
const clock = manualClock();
const makeRecord = recordMaker(clock, random);

/** A writer of a new store, over the connection that `change` makes of its own. */
function writerOf(change = (connection: SqliteConnection) => connection) {
  migrate();
  const connection = openConnection({ path, readOnly: false, busyTimeoutMs: 0 });
  connection.prepare("INSERT INTO signing_keys (position, public_key) VALUES (0, ?)").run(key);
  const anchorPath = `${path}.anchor`;
  const anchor = openAnchor(anchorPath, 0);
  return { connection, writer: new SqliteWriter(change(connection), anchor, "o") };
}

test("a new anchor is in its file before the store relies on it", () => {
  using anchor = openAnchor(`${path}.anchor`);
  anchor.adopt("store", []);
  // The file without its write-ahead log, as after a failure of power.
  copyFileSync(anchor.path, `${path}.copy`);
  using copy = openAnchor(`${path}.copy`);
  expect(copy.storeId()).toBe("store");
});

test("an append to a head that another writer moved stores nothing", async () => {
  const { connection, writer } = writerOf((own) => withoutEffect(own, "UPDATE log_heads"));
  const append = () => {
    const batch = { tenantId: tenant("alice"), records: [encodeRecord(makeRecord(tenant("alice"))).text] };
    return writer.append([batch], random(new Uint8Array(seedBytes(1))), clock.now(), key);
  };
  await append();
  await expect(append()).rejects.toThrow("moved by another writer");
  expect(connection.prepare("SELECT count(*) AS count FROM entries").get()).toEqual({ count: 2 });
  expect(connection.isTransaction).toBe(false);
  writer.close();
});

test("a store without its identity fails the write check", async () => {
  const { connection, writer } = writerOf();
  connection.exec("DELETE FROM store");
  await expect(writer.probe(clock.now(), key)).rejects.toThrow("identity");
  writer.close();
});

/** The connection, on which statements that begin so change nothing. */
function withoutEffect(connection: SqliteConnection, beginning: string): SqliteConnection {
  const prepare = connection.prepare.bind(connection);
  connection.prepare = (sql) =>
    sql.startsWith(beginning) ? ({ run: () => ({ changes: 0 }) } as unknown as StatementSync) : prepare(sql);
  return connection;
}
