/** What a database, its schema and its keys must be before anything is served from it. */
import { existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { signingKeyOf } from "../../src/ledger/tlog/note-keys.ts";
import { createKeyFile } from "../../src/stores/files/key-file.ts";
import { openPostgresArchive, openPostgresDatabase } from "../../src/stores/postgres/backend.ts";
import { ConnectionPool } from "../../src/stores/postgres/connection/pool.ts";
import { openPostgresStores } from "../../src/stores/postgres/open-ledger.ts";
import { migratePostgres, migrations } from "../../src/stores/postgres/schema.ts";
import { forFile, forTest } from "../harness/lifetimes.ts";
import { startPostgres } from "../harness/postgres.ts";
import { type PostgresFixture, postgresFixture, targetOf } from "./ledger-postgres-fixture.ts";
import { recordKit, seededRandom, tenant } from "./ledger-records.ts";
import { expectGapless } from "./ledger-suite.ts";

const { clock, random, makeRecord } = recordKit();
const alice = tenant("alice");
const options = { clock, random };
let fixture: PostgresFixture;
let folder: string;

const server = await forFile(startPostgres({ hba: ["host all guarded 127.0.0.1/32 scram-sha-256"] }));
beforeEach(async () => {
  fixture = await postgresFixture(server);
  folder = dirname(fixture.keyPath);
});

/** Opens the store and closes it again. */
async function start(changes: Parameters<PostgresFixture["open"]>[0] = options): Promise<void> {
  await (await fixture.open(changes)).close();
}

describe("the schema", () => {
  test("is created once under concurrent migrations, and not changed again", async () => {
    const target = targetOf(await server.createDatabase());
    const runs = await Promise.all(Array.from({ length: 4 }, () => migratePostgres({ target, random })));
    expect(runs.filter((applied) => applied.length > 0)).toEqual([migrations.map(({ name }) => name)]);
    expect(await migratePostgres({ target, random })).toEqual([]);
  });

  test("of a failed migration leaves nothing", async () => {
    const url = await server.createDatabase();
    const broken = [...migrations, { name: "broken", sql: "CREATE TABLE later (a int); SELECT 1 / 0" }];
    await expect(migratePostgres({ target: targetOf(url), random, migrations: broken })).rejects.toThrow("division");
    expect(await server.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", url)).toEqual([]);
  });

  test.each([
    ["a newer", "INSERT INTO schema_migrations VALUES (99, 'from the future')", "newer version"],
    ["another", "UPDATE schema_migrations SET name = 'theirs' WHERE version = 1", "another program"],
  ])("of %s program is refused by both", async (_which, change, message) => {
    await fixture.query(change);
    await expect(start()).rejects.toThrow(message);
    await expect(migratePostgres({ target: fixture.target, random })).rejects.toThrow(message);
  });

  test("that is missing is not created by the service", async () => {
    const target = targetOf(await server.createDatabase());
    await expect(start({ ...options, target })).rejects.toThrow("no schema yet: run `migrate`");
    await expect(openPostgresArchive({ target, anchorPath: undefined })).rejects.toThrow("run `migrate`");
  });
});

describe("a server", () => {
  test.each(["fsync", "full_page_writes"])("with %s off is refused", async (name) => {
    const weak = await forTest(startPostgres({ settings: { [name]: "off" } }));
    const target = targetOf(weak.url);
    await expect(migratePostgres({ target, random })).rejects.toThrow(`${name} off`);
    await expect(start({ ...options, target })).rejects.toThrow(`${name} off`);
  });

  test("cannot relax durability through its role", async () => {
    await fixture.query("ALTER ROLE postgres SET synchronous_commit = off");
    await fixture.query("ALTER ROLE postgres SET client_min_messages = error");
    onTestFinished(async () => void (await fixture.query("ALTER ROLE postgres RESET ALL")));
    const { target } = fixture;
    const pool = new ConnectionPool({ target, poolSize: 1, timeoutMs: 1_000 });
    onTestFinished(() => pool.close());
    const shown = async (name: string) =>
      (await pool.query(`SELECT current_setting('${name}') AS value`, [])).rows[0]?.value;
    expect([await shown("synchronous_commit"), await shown("client_min_messages")]).toEqual(["on", "notice"]);
  });

  test("without TLS is refused if TLS is required", async () => {
    const tls = { rootCertificate: undefined, certificate: undefined, key: undefined };
    await expect(start({ ...options, target: { ...fixture.target, tls } })).rejects.toThrow("SSL");
  });
});

describe("a password", () => {
  test("is read from its file at each connect", async () => {
    await fixture.query("CREATE ROLE guarded SUPERUSER LOGIN PASSWORD 'first'");
    const passwordFile = join(folder, "password");
    writeFileSync(passwordFile, "first\n");
    const target = { ...fixture.target, user: "guarded" };
    const ledger = await fixture.open({ ...options, target, passwordFile });
    await fixture.query("ALTER ROLE guarded PASSWORD 'second'");
    writeFileSync(passwordFile, "second");
    await server.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'guarded'");
    await ledger.append(makeRecord(alice));
    await ledger.close();
    writeFileSync(passwordFile, "wrong");
    const refusal = await start({ ...options, target, passwordFile }).catch((error: Error) => error.message);
    expect(refusal).toContain("password authentication failed");
    expect(refusal).not.toContain("wrong");
  });
});

describe("the signing key", () => {
  test("is created by one of the replicas that share its file, and admitted once", async () => {
    await Promise.all(Array.from({ length: 3 }, () => start()));
    expect(await fixture.query("SELECT position FROM signing_keys")).toEqual([{ position: 0 }]);
  });

  test("of a replica with another file is refused", async () => {
    await start();
    const keyPath = join(folder, "own.key");
    await expect(start({ ...options, keyPath })).rejects.toThrow("is missing");
    createKeyFile(keyPath, [signingKeyOf(random(new Uint8Array(32)))]);
    await expect(start({ ...options, keyPath })).rejects.toThrow("is not the key that signs the logs");
  });

  test("after a rotation is in every log once, whichever replica starts with it", async () => {
    const ledger = await fixture.open(options);
    await ledger.append(makeRecord(alice));
    await ledger.append(makeRecord(tenant("bob")));
    await ledger.close();
    fixture.rotateKey(random);
    await Promise.all([start(), start({ ...options, random: seededRandom("other") })]);
    await start();
    for (const name of ["alice", "bob"]) {
      await expectGapless(fixture, name, 3);
      expect(JSON.parse((await fixture.rows(name))[2]?.leaf ?? "")).toMatchObject({ kind: "key_rotation" });
    }
    expect(await fixture.query("SELECT position FROM signing_keys")).toHaveLength(2);
  });
});

describe("an anchor in a file", () => {
  test("is not needed: without one there is nothing to differ from, and a log may be signed", async () => {
    const ledger = await fixture.open(options);
    await ledger.append(makeRecord(alice));
    await fixture.reading(async (archive) => {
      const [head] = await archive.logs();
      expect(await archive.anchorProblems()).toEqual([]);
      expect(head && (await archive.signable(head))).toEqual({ head });
    });
  });

  test("detects a restored store, and another store", async () => {
    const anchorPath = join(folder, "anchor");
    const open = () => fixture.open({ ...options, anchorPath });
    let ledger = await open();
    await ledger.append(makeRecord(alice));
    await fixture.query("CREATE TABLE copy AS SELECT * FROM log_heads");
    await ledger.append(makeRecord(alice));
    await ledger.close();
    await (await open()).close();
    ledger = await open();
    await fixture.query("UPDATE log_heads SET size = copy.size, root = copy.root FROM copy");
    await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject({ reason: "store_unavailable" });
    await ledger.close();
    await expect(open()).rejects.toThrow("the store is an older copy");
    const other = await postgresFixture(server);
    await expect(other.open({ ...options, anchorPath })).rejects.toThrow("another store");
  });

  test("is needed by a command that appends, which makes none, and closes it if it cannot read the store", async () => {
    const anchorPath = join(folder, "anchor");
    await using database = await openPostgresDatabase({ target: fixture.target, anchorPath });
    await expect(database.openAnchor()).rejects.toThrow(`${anchorPath} is missing: nothing may be appended.`);
    expect(existsSync(anchorPath)).toBe(false);
    await start({ ...options, anchorPath });
    (await database.openAnchor())?.close();
    const other = await postgresFixture(server);
    await using another = await openPostgresDatabase({ target: other.target, anchorPath });
    await expect(another.openAnchor()).rejects.toThrow("is not the anchor of this store");
    await fixture.query("DELETE FROM store");
    await expect(database.openAnchor()).rejects.toThrow("lost its identity");
    // The last connection removes it.
    expect(existsSync(`${anchorPath}-wal`)).toBe(false);
  });
});

test("an invalid origin is refused before anything is opened", async () => {
  const { target, keyPath } = fixture;
  await expect(openPostgresStores({ ...options, target, keyPath, originPrefix: "a b" })).rejects.toThrow(RangeError);
});
