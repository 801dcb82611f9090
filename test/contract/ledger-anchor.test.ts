/** A store that is not what it was signs nothing, and says so. */
import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { beforeEach, expect, test, vi } from "vitest";
import type { ServiceLedger } from "../../src/ledger/append/ledger.ts";
import type { LogState } from "../../src/ledger/ports/store.ts";
import { anchorConnection, SqliteAnchor } from "../../src/stores/files/anchor.ts";
import { openConnection } from "../../src/stores/files/connection.ts";
import { SqliteQueries } from "../../src/stores/sqlite/queries.ts";
import { recordKit, tenant } from "./ledger-records.ts";
import { type SqliteFixture, sqliteFixture } from "./ledger-sqlite-fixture.ts";
import { expectGapless } from "./ledger-suite.ts";

const { clock, random, makeRecord } = recordKit();
const alice = tenant("alice");
const bob = tenant("bob");

let fixture: SqliteFixture;
let ledger: ServiceLedger;

beforeEach(async () => {
  fixture = sqliteFixture();
  await open();
});

async function open(): Promise<void> {
  ledger = await fixture.open({ clock, random });
}

/** The store is not opened, and the reason says so. */
const expectRefused = (reason: string) =>
  expect(open()).rejects.toMatchObject({ name: "IncompatibleStoreError", message: expect.stringContaining(reason) });

async function append(count: number, tenantId = alice): Promise<void> {
  await Promise.all(Array.from({ length: count }, () => ledger.append(makeRecord(tenantId))));
}

test("an older copy of the store is refused, and the right one is served again", async () => {
  await append(3);
  await ledger.close();
  const putOlderBack = fixture.backUp(fixture.path);
  await open();
  await append(2);
  await ledger.close();
  const putNewestBack = fixture.backUp(fixture.path);
  putOlderBack();
  await expectRefused("has 4 leaves, and had 6");
  putNewestBack();
  await open();
  await append(1);
  await fixture.verify();
});

test("a disk failure during the comparison with the anchor is not reported as an older copy", async () => {
  await append(1);
  await ledger.close();
  const failure = Object.assign(new Error("disk I/O error"), { code: "ERR_SQLITE_ERROR", errcode: 10 });
  const { query } = SqliteQueries.prototype;
  const read = vi.spyOn(SqliteQueries.prototype, "query").mockImplementation(function (this: SqliteQueries, ...asked) {
    return asked[0].includes("FROM log_heads WHERE tenant_id") ? Promise.reject(failure) : query.apply(this, asked);
  });
  try {
    await expect(open()).rejects.toBe(failure);
  } finally {
    read.mockRestore();
  }
  await open();
  await append(1);
});

test("a sound log that is older than its answers is not appended to", async () => {
  await append(3);
  const [older] = fixture.query("SELECT hex(root) AS root FROM log_heads");
  await append(2);
  const takeBack = [
    "DELETE FROM openings WHERE record_id IN (SELECT record_id FROM entries WHERE leaf_index >= 4)",
    "DELETE FROM entries WHERE leaf_index >= 4",
    "UPDATE tiles SET hashes = CAST(substr(hashes, 1, 4 * 32) AS BLOB)",
    `UPDATE log_heads SET size = 4, root = unhex('${older?.root}')`,
  ];
  for (const sql of takeBack) fixture.query(sql);
  await fixture.verify();
  await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject({
    reason: "store_unavailable",
    details: { cause: { message: expect.stringContaining("has 4 leaves, and had 6") } },
  });
  await expectGapless(fixture, "alice", 4);
});

test("a missing log is refused", async () => {
  await append(3);
  await append(1, bob);
  await ledger.close();
  for (const table of ["log_heads", "entries", "openings", "tiles"])
    fixture.query(`DELETE FROM ${table} WHERE tenant_id = 'alice'`);
  await expectRefused("is missing from the store");
});

test("an older store under a newer -wal file is refused, and so is the reverse, and neither is changed", async () => {
  const files = (name: string) =>
    ["", "-wal"].map((suffix) => [fixture.path + suffix, `${fixture.path}.${name}${suffix}`]);
  const keep = (name: string) => {
    for (const [from, to] of files(name)) copyFileSync(from as string, to as string);
  };
  const put = (file: string, log: string) => {
    rmSync(`${fixture.path}-shm`, { force: true });
    copyFileSync(`${fixture.path}.${file}`, fixture.path);
    copyFileSync(`${fixture.path}.${log}-wal`, `${fixture.path}-wal`);
  };
  const fold = () => fixture.query("PRAGMA wal_checkpoint(TRUNCATE)");
  for (const name of ["first", "second", "third"]) {
    await append(2);
    fold();
    await append(1);
    // As a crash leaves them.
    keep(name);
  }
  await ledger.close();
  const names = ["first", "second", "third"];
  for (const file of names)
    for (const log of names.filter((name) => name !== file)) {
      put(file, log);
      await expectRefused("do not belong together");
      expect(readFileSync(fixture.path).equals(readFileSync(`${fixture.path}.${file}`))).toBe(true);
      expect(readFileSync(`${fixture.path}-wal`).equals(readFileSync(`${fixture.path}.${log}-wal`))).toBe(true);
    }
  put("third", "third");
  await open();
  await append(1);
  await fixture.verify();
});

test("an anchor refuses a tree of the same size with another root, or of another log, with all its batch", async () => {
  await append(3);
  const anchor = SqliteAnchor.open({ ...anchorConnection, path: fixture.store.anchorPath });
  const noted = anchor.find(alice) as LogState;
  const other = { ...noted, root: new Uint8Array(32) };
  const [newer, origin] = [{ ...noted, tenantId: bob, size: 9 }, `${noted.origin}0`];
  for (const wrong of [other, { ...noted, origin }, { ...noted, origin, size: noted.size + 1 }])
    expect(() => anchor.advance([newer, wrong])).toThrow(/has another tree of \d leaves there/);
  anchor.advance([noted]);
  anchor.advance([{ ...other, size: noted.size - 1 }]);
  expect([anchor.find(alice), anchor.find(bob)]).toEqual([noted, undefined]);
  anchor.close();
});

test("an anchor whose rollback failed commits later notes", async () => {
  await append(3);
  const options = { ...anchorConnection, path: fixture.store.anchorPath };
  let isFailing = false;
  const anchor = SqliteAnchor.open(options, (connection) => {
    const exec = connection.exec.bind(connection);
    connection.exec = (sql) => {
      if (isFailing && sql === "ROLLBACK") throw new Error("disk I/O error");
      exec(sql);
    };
  });
  const noted = anchor.find(alice) as LogState;
  isFailing = true;
  expect(() => anchor.advance([noted, { ...noted, origin: "another" }])).toThrow("disk I/O error");
  expect(() => anchor.advance([noted])).toThrow("disk I/O error");
  isFailing = false;
  const newer = { ...noted, size: noted.size + 1 };
  anchor.advance([newer]);
  const other = SqliteAnchor.open(options);
  expect(other.find(alice)).toEqual(newer);
  other.close();
  anchor.close();
});

test("a log that was rewritten at its size, or before it, is refused", async () => {
  await append(3);
  await ledger.close();
  const putAnchorBack = fixture.backUp(fixture.store.anchorPath);
  await open();
  await append(2);
  await ledger.close();
  fixture.query("UPDATE log_heads SET root = zeroblob(32)");
  await expectRefused("was rewritten");
  // An anchor that is behind is as good: the tiles tell.
  putAnchorBack();
  fixture.query("UPDATE tiles SET hashes = CAST(zeroblob(64) || substr(hashes, 65) AS BLOB)");
  await expectRefused("before leaf 4");
});

test("a missing anchor, or one of another store, is refused", async () => {
  await append(1);
  await ledger.close();
  rmSync(fixture.store.anchorPath);
  await expectRefused("is new, but this store had");
  const other = sqliteFixture();
  await (await other.open({ clock, random })).close();
  copyFileSync(other.store.anchorPath, fixture.store.anchorPath);
  await expectRefused("of another store");
});

test("the key is created once, kept private, and never replaced", async () => {
  await append(1);
  await ledger.close();
  const { keyPath } = fixture.store;
  const key = readFileSync(keyPath);
  expect(key.toString()).toMatch(/^-----BEGIN PRIVATE KEY-----/);
  rmSync(keyPath);
  await expectRefused("is missing");
  expect(existsSync(keyPath)).toBe(false);
  const other = sqliteFixture();
  await (await other.open({ clock, random })).close();
  copyFileSync(other.store.keyPath, keyPath);
  await expectRefused("is not the key");
  writeFileSync(keyPath, key);
  await open();
});

test("the anchor survives the process, and the writer's store the machine", () => {
  const pragma = (durability: "machine" | "process") => {
    const connection = openConnection({ path: fixture.path, readOnly: false, durability });
    try {
      return connection.prepare("PRAGMA synchronous").get()?.synchronous;
    } finally {
      connection.close();
    }
  };
  expect([pragma("machine"), pragma("process")]).toEqual([2, 1]);
});
