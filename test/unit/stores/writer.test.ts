import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { encodeRecord } from "../../../src/ledger/append/record-text.ts";
import { seedBytes } from "../../../src/ledger/append/sequence.ts";
import { anchorConnection, createAnchor, SqliteAnchor } from "../../../src/stores/files/anchor.ts";
import { openConnection, type SqliteConnection } from "../../../src/stores/files/connection.ts";
import { migrateSqlite } from "../../../src/stores/sqlite/schema.ts";
import { SqliteWriter } from "../../../src/stores/sqlite/writer.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "../../contract/ledger-records.ts";

const clock = manualClock();
const random = seededRandom();
const makeRecord = recordMaker(clock, random);
const alice = tenant("alice");

let directory: string;
let path: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "writer-"));
  path = join(directory, "platform.db");
  migrateSqlite({ path, random, busyTimeoutMs: 1_000 });
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const anchorOf = () => {
  const anchorPath = `${path}.anchor`;
  createAnchor(anchorPath, 1_000);
  return SqliteAnchor.open({ ...anchorConnection, path: anchorPath, busyTimeoutMs: 0 });
};
const key = new Uint8Array(32);
const open = () => openConnection({ path, readOnly: false, busyTimeoutMs: 0 });
const batch = () => ({ tenantId: alice, records: [encodeRecord(makeRecord(alice)).text] });
const seed = () => random(new Uint8Array(seedBytes(1)));

test("a new store has pages for several records; an existing one keeps its page size", () => {
  const pageSize = (of: string) => {
    const connection = openConnection({ path: of, readOnly: true, busyTimeoutMs: 0 });
    const size = connection.prepare("PRAGMA page_size").get();
    connection.close();
    return size;
  };
  expect(pageSize(path)).toEqual({ page_size: 8_192 });
  const older = join(directory, "older.db");
  new DatabaseSync(older).exec("PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; VACUUM");
  migrateSqlite({ path: older, random, busyTimeoutMs: 1_000 });
  expect(pageSize(older)).toEqual({ page_size: 4_096 });
});

test("an append to a head that another writer moved stores nothing", async () => {
  const connection = open();
  connection.prepare("INSERT INTO signing_keys (position, public_key) VALUES (0, ?)").run(key);
  const writer = new SqliteWriter(withoutEffect(connection, "UPDATE log_heads"), anchorOf(), "o");
  await writer.append([batch()], seed(), clock.now(), key);
  await expect(writer.append([batch()], seed(), clock.now(), key)).rejects.toThrow("moved by another writer");
  expect(connection.prepare("SELECT count(*) AS count FROM entries").get()).toEqual({ count: 2 });
  expect(connection.isTransaction).toBe(false);
  writer.close();
});

test("a store without its identity fails the write check", async () => {
  const connection = open();
  connection.prepare("INSERT INTO signing_keys (position, public_key) VALUES (0, ?)").run(key);
  connection.exec("DELETE FROM store");
  const writer = new SqliteWriter(connection, anchorOf(), "o");
  await expect(writer.probe(clock.now(), key)).rejects.toThrow("identity");
  writer.close();
});

/** The connection, on which statements that begin so change nothing. */
function withoutEffect(connection: SqliteConnection, beginning: string): SqliteConnection {
  return {
    exec: (sql) => connection.exec(sql),
    prepare: (sql) =>
      sql.startsWith(beginning)
        ? { run: () => ({ changes: 0 }), get: () => undefined, iterate: () => [].values() }
        : connection.prepare(sql),
    close: () => connection.close(),
    get isTransaction() {
      return connection.isTransaction;
    },
  };
}
