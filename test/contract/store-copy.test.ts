/** Moving an embedded store to PostgreSQL, and back: the same logs continue there, and nowhere else. */
import { readFileSync } from "node:fs";
import { beforeEach, describe, expect, test } from "vitest";
import type { Ledger } from "../../src/ledger/ports/ledger.ts";
import type { Idempotency, NewRecord } from "../../src/ledger/ports/record.ts";
import { requestDigest } from "../../src/ledger/record/record.ts";
import { signingKeyOf } from "../../src/ledger/tlog/note-keys.ts";
import { replaceKeyFile } from "../../src/stores/files/key-file.ts";
import type { ServiceStores, StoreDatabase } from "../../src/stores/sql/backend.ts";
import { abandonCopy, copyStore } from "../../src/stores/sql/copy.ts";
import { migrateSqlite } from "../../src/stores/sqlite/schema.ts";
import { forFile } from "../harness/lifetimes.ts";
import { sharedPostgres } from "../harness/shared-postgres.ts";
import { erasing, run, settingsForTest } from "../unit/cli/surroundings.ts";
import { statement } from "./erasure-suite.ts";
import { type PostgresFixture, postgresFixture } from "./ledger-postgres-fixture.ts";
import { recordKit, tenant } from "./ledger-records.ts";
import { type SqliteFixture, sqliteFixture } from "./ledger-sqlite-fixture.ts";

const { clock, random, makeRecord } = recordKit();
const machine = { clock, random };
const [alice, bob, carol] = [tenant("alice"), tenant("bob"), tenant("carol")];
let source: SqliteFixture;
let target: PostgresFixture;

const server = await forFile(sharedPostgres());
beforeEach(async () => {
  source = sqliteFixture();
  target = await postgresFixture(server);
});

type OnProgress = (text: string) => void;
async function copy(onProgress: OnProgress = () => {}, to = target) {
  await using from = await source.database("target");
  await using end = await to.database("target");
  return await copyStore({ source: from, target: end, keyPath: source.store.keyPath, ...machine, onProgress });
}

async function abandon() {
  await using from = await source.database("target");
  return await abandonCopy(from);
}

/** A copy that ends at this step. */
const breakOff = async (step = "copying tiles", begin = copy) => {
  const broken = begin((text) => {
    if (text.startsWith(step)) throw new Error("pulled the plug");
  });
  await expect(broken).rejects.toThrow("pulled the plug");
};

/** Opens the copy as a gateway does, with the same key. */
const openTarget = () => target.openStores({ ...machine, keyPath: source.store.keyPath });

const idempotencyOf = (record: NewRecord): Idempotency => ({
  scope: "a5".repeat(32),
  payloadDigest: requestDigest(record.request),
  answer: { said: "before" },
});

/** A store with a history: three tenants, one of them with more than a tile; a rotation, an erasure, a hold. */
async function fill() {
  const { ledger, shared } = await source.openStores(machine);
  const records = Array.from({ length: 300 }, () => makeRecord(alice));
  await Promise.all(records.map((record) => ledger.append(record)));
  await ledger.append(makeRecord(carol));
  const plain = makeRecord(bob);
  const retried = { ...plain, idempotency: idempotencyOf(plain) };
  const answered = await ledger.append(retried);
  await ledger.keepPolicyRevision("sha256:0123", "permit (principal, action, resource);");
  await shared.firstUse({ tenantId: alice, proof: "kept" }, clock.now() + 60_000);
  await ledger.close();
  const now = clock.now();
  source.query(`INSERT INTO proof_uses VALUES ('alice', 'gone', ${now})`);
  source.query(`INSERT INTO attempts VALUES ('', 'address', 3, ${now + 1}), ('', 'gone', 3, ${now})`);
  const [erased, held] = records as [NewRecord, NewRecord];
  await source.administering(machine, async (administration) => {
    await administration.erase(alice, [erased.recordId], statement);
    await administration.placeHold({ tenantId: alice, recordId: held.recordId, reason: "case 12" });
  });
  source.rotateKey(random);
  await (await source.open(machine)).close();
  return { retried, answered, erased, held };
}

async function fillLittle(): Promise<void> {
  const ledger = await source.open(machine);
  for (const one of [alice, bob]) await ledger.append(makeRecord(one));
  await ledger.close();
}

// SQLite's rows have no prototype.
const heads = (of = source): Record<string, unknown>[] =>
  of
    .query("SELECT tenant_id, origin, size, hex(root) AS root FROM log_heads ORDER BY tenant_id")
    .map((row) => ({ ...row }));
const copiedHeads = () =>
  target.query(
    "SELECT tenant_id, origin, size::int AS size, upper(encode(root, 'hex')) AS root FROM log_heads ORDER BY tenant_id",
  );

const tables = [
  "entries",
  "openings",
  "tiles",
  "kept_answers",
  "erasures",
  "legal_holds",
  "search_keys",
  "search_segments",
  "artifact_keys",
  "registered_artifacts",
  "cosignatures",
  "policy_revisions",
  "signing_keys",
];

/** As many rows in each table of the embedded store as in those of the database. */
async function expectAllRows(of: SqliteFixture): Promise<void> {
  for (const table of tables) {
    const sql = `SELECT count(*) AS count FROM ${table}`;
    expect([table, Number((await target.query(sql))[0]?.count)]).toEqual([table, of.query(sql)[0]?.count]);
  }
}

/** What was erased stays so, and a retry of a call from before the move gets the same answer, receipt included. */
async function expectAsBefore(
  { ledger, shared }: Pick<ServiceStores, "ledger" | "shared">,
  filled: Awaited<ReturnType<typeof fill>>,
) {
  const { retried, answered, erased, held } = filled;
  expect(await ledger.find(alice, erased.recordId)).toBe("erased");
  expect(await ledger.find(alice, held.recordId)).toMatchObject({ record_id: held.recordId });
  const { recordId, request, idempotency } = retried;
  const again = await ledger.append({ ...makeRecord(bob), recordId, request, ...(idempotency && { idempotency }) });
  expect(again).toMatchObject({ recordId: answered.recordId, leafIndex: answered.leafIndex, log: answered.log });
  expect(await shared.firstUse({ tenantId: alice, proof: "kept" }, clock.now() + 60_000)).toBe(false);
}

describe("a copy", () => {
  test("has all rows of the source, in logs that continue", async () => {
    const filled = await fill();
    const { answered, held } = filled;
    const before = heads();
    expect(await copy()).toMatchObject({
      wasFinished: false,
      logs: before.map(({ tenant_id, origin, size }) => ({ tenantId: tenant_id, origin, size })),
    });
    expect(await copiedHeads()).toEqual(before);
    await expectAllRows(source);
    expect(await target.query("SELECT 1 FROM search_segments WHERE first_leaf <= 1 AND end_leaf > 1")).not.toEqual([]);

    const { ledger, shared } = await openTarget();
    await expectAsBefore({ ledger, shared }, filled);
    // New records continue the same log.
    const next = await ledger.append(makeRecord(bob));
    expect([next.log, next.leafIndex]).toEqual([answered.log, before[1]?.size]);
    expect(await target.query("SELECT proof FROM proof_uses")).toHaveLength(1);
    expect(await target.query("SELECT tenant_id, counter, taken FROM attempts")).toEqual([
      { tenant_id: "", counter: "address", taken: 3 },
    ]);
    await ledger.close();
    const again = await target.administering(machine, (administration) =>
      administration.erase(alice, [held.recordId], statement),
    );
    expect(again).toMatchObject({ refused: [{ recordId: held.recordId, why: "held" }] });
    for (const tenantId of [alice, bob, carol]) expect((await target.audit(tenantId)).problem).toBeUndefined();
    const terms = [{ field: "record_id", value: held.recordId }] as const;
    const page = await target.reading((archive) => archive.search({ tenantId: alice, terms, limit: 10 }));
    expect(page).toMatchObject({ found: [{ recordId: held.recordId, leafIndex: 2 }] });
  });
});

describe("the source", () => {
  test("is not written to after the seal, by a running service or a new one", async () => {
    await fillLittle();
    const running: Ledger = await source.open(machine);
    const acknowledged: string[] = [];
    const writing = (async () => {
      for (;;) acknowledged.push((await running.append(makeRecord(alice))).recordId);
    })().catch((error: unknown) => error);
    await expect.poll(() => acknowledged.length).toBeGreaterThan(0);
    expect(await copy()).toMatchObject({ wasFinished: false });
    expect(await writing).toMatchObject({ reason: "store_unavailable" });
    const copied = await target.query("SELECT record_id FROM entries");
    expect(copied.map(({ record_id }) => record_id)).toEqual(expect.arrayContaining(acknowledged));
    expect(await copiedHeads()).toEqual(heads());

    await expect(running.append(makeRecord(carol))).rejects.toMatchObject({ reason: "store_unavailable" });
    await expect(running.check()).rejects.toMatchObject({ reason: "store_unavailable" });
    await running.close();
    await expect(source.open(machine)).rejects.toThrow(/is sealed: it was copied/);
    expect(() => migrateSqlite({ path: source.path, random })).toThrow("is sealed");
    await expect(source.administration(machine)).rejects.toThrow("is sealed");
    expect(await copiedHeads()).toEqual(heads());
    await source.verify();
  });

  test("that is damaged is refused before it is sealed; the first bad index is named", async () => {
    await fillLittle();
    const [, row] = await source.rows("alice");
    await source.damage("alice", row?.recordId ?? "");
    expect(await copy()).toEqual({ problems: [expect.stringMatching(/^source: .*leaf 1 does not open its record/)] });
    await (await source.open(machine)).close();
    expect(await copiedHeads()).toEqual([]);
  });

  test("that contradicts its anchor is refused", async () => {
    await fillLittle();
    source.query("UPDATE store SET store_id = 'another'");
    expect(await copy()).toEqual({ problems: [expect.stringContaining("the anchor of another store")] });
  });

  test("with another key than the settings' is refused", async () => {
    await fillLittle();
    replaceKeyFile(source.store.keyPath, [signingKeyOf(random(new Uint8Array(32)))]);
    expect(await copy()).toEqual({ problems: [expect.stringContaining("is not the key that signs")] });
  });

  test("is refused as an older copy if it is restored beside its anchor", async () => {
    await fillLittle();
    await copy();
    // A file from before the seal, which agrees with the anchor.
    const triggers = source.query("SELECT name FROM sqlite_schema WHERE type = 'trigger'");
    expect(triggers.length).toBeGreaterThan(0);
    for (const { name } of triggers) source.query(`DROP TRIGGER ${name}`);
    source.query("DELETE FROM store_copy");
    await expect(source.open(machine)).rejects.toThrow("sealed");
    expect(await abandon()).toBe(false);
    await expect(source.open(machine)).rejects.toThrow("sealed");
  });
});

const openingOfMallory =
  "INSERT INTO openings VALUES ('mallory', 'x', decode(repeat('00', 32), 'hex')) ON CONFLICT DO NOTHING;";

const flippedTile = "NEW.hashes := set_byte(NEW.hashes, 0, 255 - get_byte(NEW.hashes, 0));";

describe("the target", () => {
  test("that a gateway has started on is refused, and the source continues", async () => {
    await fillLittle();
    await (await target.open(machine)).close();
    await expect(copy()).rejects.toThrow(/is not empty: it has signing_keys/);
    await (await source.open(machine)).close();
  });

  test("that was not migrated is refused", async () => {
    await fillLittle();
    await target.query("DELETE FROM schema_migrations");
    await expect(copy()).rejects.toThrow("run `migrate`");
  });

  test.each([
    ["has more than was copied", "log_heads", openingOfMallory, /^target: openings has \d+ rows of \d+$/],
    ["has another record", "entries", "NEW.sealed := 'x';", /^target: .*leaf 0 does not open its record$/],
    ["has another head", "log_heads", "NEW.size := NEW.size + 1;", /^target: .* is not what it was$/],
    ["has a tile that is not the leaves'", "tiles", flippedTile, /^target: .*tile/],
    ["lost rows", "kept_answers", "RETURN NULL;", /^target: kept_answers has 0 rows of 1$/],
  ])("that %s is not served, and no command signs its logs", async (_, table, change, problem) => {
    await fill();
    await target.query(`CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN ${change} RETURN NEW; END $$`);
    await target.query(`CREATE TRIGGER change BEFORE INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION change()`);
    expect(await copy()).toEqual({ problems: expect.arrayContaining([expect.stringMatching(problem)]) });
    await expect(openTarget()).rejects.toThrow("finish it with `store copy`");
    await target.reading(async (archive) => {
      const [head] = await archive.logs();
      const problem = "a store is still being copied to this one";
      expect(head && (await archive.signable(head))).toEqual({ problem });
    });
  });
});

describe("an interrupted copy", () => {
  test("is not served, and the next copy completes it", async () => {
    await fill();
    await breakOff();
    await expect(openTarget()).rejects.toThrow("finish it with `store copy`");
    await expect(target.administration(machine)).rejects.toThrow("finish it with `store copy`");
    await expect(source.open(machine)).rejects.toThrow(/is sealed: a copy to another store is under way/);
    expect(await copy()).toMatchObject({ wasFinished: false });
    expect(await copiedHeads()).toEqual(heads());
    await (await openTarget()).ledger.close();
  });

  test("can be abandoned: the source continues, and can be copied again", async () => {
    await fillLittle();
    await breakOff();
    const interrupted = async () => {
      await using from = await source.database("target");
      const transact: StoreDatabase["transact"] = (work) =>
        from.transact(async (transaction) => {
          await work(transaction);
          throw new Error("pulled the plug");
        });
      await abandonCopy({ ...from, transact });
    };
    await expect(interrupted()).rejects.toThrow("pulled the plug");
    await expect(source.open(machine)).rejects.toThrow("is sealed: a copy to another store is under way");
    expect(await abandon()).toBe(true);
    expect(await abandon()).toBe(false);
    await fillLittle();
    expect(await copy()).toMatchObject({ wasFinished: false });
    expect(await copiedHeads()).toEqual(heads());
    await expect(abandon()).rejects.toThrow(/is sealed: it was copied/);
  });

  /** Copies while something happens at a step. */
  async function copyWhile(step: string, work: () => Promise<unknown>) {
    await using from = await source.database("target");
    await using to = await target.database("target");
    const slowed: StoreDatabase = {
      ...to,
      async insert(transaction, table, rows) {
        if (table.name === step) await work();
        await to.insert(transaction, table, rows);
      },
    };
    return await copyStore({ source: from, target: slowed, keyPath: source.store.keyPath, ...machine });
  }

  test("cannot finish after it was abandoned", async () => {
    await fillLittle();
    await expect(copyWhile("log_heads", abandon)).rejects.toThrow("The seal was taken off the source");
    await expect(openTarget()).rejects.toThrow("finish it with `store copy`");
    await (await source.open(machine)).close();
  });

  test("ends when another copy to the same database begins", async () => {
    await fillLittle();
    // Between two tables: the transaction of a row holds the mark.
    const overtaken = async () => {
      await using from = await source.database("target");
      await using to = await target.database("target");
      const query: StoreDatabase["query"] = async (text, values) => {
        if (text.includes("FROM signing_keys")) await breakOff();
        return from.query(text, values);
      };
      await copyStore({ source: { ...from, query }, target: to, keyPath: source.store.keyPath, ...machine });
    };
    await expect(overtaken()).rejects.toThrow("Another copy");
    await expect(openTarget()).rejects.toThrow("finish it with `store copy`");
    expect(await copy()).toMatchObject({ wasFinished: false });
    expect(await copiedHeads()).toEqual(heads());
  });

  test("may continue to another database, but not after it was finished", async () => {
    await fillLittle();
    await breakOff();
    const other = await postgresFixture(server);
    expect(await copy(() => {}, other)).toMatchObject({ wasFinished: false });
    await expect(copy()).rejects.toThrow(/is sealed: it was copied to the store/);
  });
});

describe("a copy back", () => {
  let back: SqliteFixture;

  beforeEach(() => {
    back = sqliteFixture();
    migrateSqlite({ path: back.path, random });
  });

  const keyPath = () => source.store.keyPath;
  const copyBack = async (onProgress: OnProgress = () => {}) => {
    await using from = await target.database("source");
    await using to = await back.database("target");
    return await copyStore({ source: from, target: to, keyPath: keyPath(), ...machine, onProgress });
  };
  const openBack = () => back.openStores({ ...machine, keyPath: keyPath() });

  test("has all rows of the database, in logs that continue", async () => {
    const filled = await fill();
    await copy();
    const running = (await openTarget()).ledger;
    const added = await running.append(makeRecord(tenant("dave")));
    const acknowledged: string[] = [];
    const writing = (async () => {
      for (;;) acknowledged.push((await running.append(makeRecord(bob))).recordId);
    })().catch((error: unknown) => error);
    await expect.poll(() => acknowledged.length).toBeGreaterThan(0);
    expect(await copyBack()).toMatchObject({ wasFinished: false });
    expect(await writing).toMatchObject({ reason: "store_unavailable" });
    await expect(running.append(makeRecord(carol))).rejects.toMatchObject({ reason: "store_unavailable" });
    await expect(running.check()).rejects.toMatchObject({ reason: "store_unavailable" });
    await running.close();
    await expect(openTarget()).rejects.toThrow(/is sealed: it was copied/);
    await expect(target.administration(machine)).rejects.toThrow(/is sealed: it was copied/);
    expect(await copyBack()).toMatchObject({ wasFinished: true });

    expect(heads(back)).toEqual(await copiedHeads());
    await expectAllRows(back);
    const copied = back.query("SELECT record_id FROM entries").map(({ record_id }) => record_id);
    expect(copied).toEqual(expect.arrayContaining([...acknowledged, added.recordId]));
    const { ledger, shared } = await openBack();
    await expectAsBefore({ ledger, shared }, filled);
    expect((await ledger.append(makeRecord(tenant("dave")))).leafIndex).toBe(added.leafIndex + 1);
    await ledger.close();
    await back.verify();
  });

  test("that was interrupted is served by no service; it is completed, or abandoned", async () => {
    await fillLittle();
    await copy();
    const breakBackOff = () => breakOff("copying tiles", copyBack);
    await breakBackOff();
    await expect(openBack()).rejects.toThrow("finish it with `store copy`");
    await expect(openTarget()).rejects.toThrow("a copy to another store is under way");
    const abandonBack = async () => {
      await using from = await target.database("source");
      return await abandonCopy(from);
    };
    expect(await abandonBack()).toBe(true);
    const { ledger } = await openTarget();
    await ledger.append(makeRecord(alice));
    await ledger.close();
    await breakBackOff();
    expect(await copyBack()).toMatchObject({ wasFinished: false });
    expect(heads(back)).toEqual(await copiedHeads());
    await expect(abandonBack()).rejects.toThrow(/is sealed: it was copied/);
    await (await openBack()).ledger.close();
  });

  test("goes back while the handover of its logs to a newer key is pending", async () => {
    await fill();
    await copy();
    // As a gateway leaves the database that ends after it has noted a key, before it hands over a log.
    const hex = Buffer.from(source.rotateKey(random)).toString("hex");
    await target.query(`INSERT INTO signing_keys SELECT max(position) + 1, '\\x${hex}' FROM signing_keys`);
    expect(await copyBack()).toMatchObject({ wasFinished: false });
    await (await openBack()).ledger.close();
    const positions = back.query("SELECT DISTINCT key_position FROM log_heads").map(({ key_position }) => key_position);
    expect(positions).toEqual([2]);
  });
});

describe("the command", () => {
  beforeEach(() => settingsForTest({ SVC_LEDGER_KEY: source.store.keyPath }));

  const command = (...options: readonly string[]) => run("store", "copy", ...options);
  const yes = (...options: readonly string[]) => command(...options, ...erasing);
  const urls = () => ["--from", `sqlite:${source.path}`, "--to", target.url];

  test("copies, and reports what", async () => {
    await fillLittle();
    const [alices] = heads();
    const first = await yes(...urls());
    expect(first.code).toBe(0);
    expect(JSON.parse(first.err)).toMatchObject({
      category: "administration",
      command: "store copy",
      operator: "olga",
      reason: "request 1",
      source: source.path,
    });
    expect(first.out).toContain(`ok ${alices?.origin} (tenant alice): 2 leaves, root `);
    const again = await yes(...urls(), "--json");
    expect(JSON.parse(again.out)).toMatchObject({ ok: true, was_finished: true });
    expect(await yes("--from", `sqlite:${source.path}`, "--abandon")).toMatchObject({
      code: 1,
      err: expect.stringContaining("is sealed: it was copied"),
    });
  });

  test("seals nothing without --yes; --dry-run audits, and reports what would be copied", async () => {
    await fillLittle();
    const [alices] = heads();
    const bytes = () => readFileSync(source.path).toString("base64");
    const before = bytes();
    const refused = { code: 1, err: expect.stringContaining("--yes was not given") };
    expect((await command(...urls(), "--yes")).err).toBe("--reason: is required\n--operator: is required\n");
    expect(await command(...urls(), ...erasing.slice(0, -1))).toMatchObject(refused);
    const preview = await command(...urls(), "--dry-run");
    expect(preview).toMatchObject({ code: 0, err: "" });
    expect(preview.out).toContain(`ok ${alices?.origin} (tenant alice): 2 leaves, root `);
    expect(preview.out).toContain("would be copied to the store");
    expect(JSON.parse((await command(...urls(), "--dry-run", "--json")).out)).toMatchObject({
      dry_run: true,
      was_finished: false,
    });
    expect(bytes()).toBe(before);
    expect(await target.query("SELECT count(*)::int AS count FROM entries")).toEqual([{ count: 0 }]);
    await breakOff("copying entries");
    const abandon = ["--from", `sqlite:${source.path}`, "--abandon"];
    expect((await command(...abandon, "--yes")).err).toBe("--reason: is required\n--operator: is required\n");
    expect(await command(...abandon, ...erasing.slice(0, -1))).toMatchObject(refused);
    expect((await command(...abandon, "--dry-run")).out).toBe(`the seal would be taken off ${source.path}\n`);
    expect((await yes(...abandon)).out).toBe(`the seal is off ${source.path}\n`);
    expect((await command(...abandon, "--dry-run")).out).toBe(`${source.path} is not sealed\n`);
  });

  test("fails if nothing was copied", async () => {
    await fillLittle();
    await source.damage("bob", (await source.rows("bob"))[0]?.recordId ?? "");
    const refused = await yes(...urls(), "--json");
    expect(refused.code).toBe(1);
    expect(JSON.parse(refused.out).problems).toContainEqual(expect.stringContaining("leaf 0 does not open"));
    expect(await yes("--from", `sqlite:${source.path}`, "--abandon")).toMatchObject({
      code: 0,
      out: `${source.path} was not sealed\n`,
    });
  });

  test.each([
    [["--from", "sqlite:/nowhere/platform.db", "--to", "postgres://u:secret@127.0.0.1:1/d"], "is missing"],
    [
      ["--from", "postgres://u@127.0.0.1/d", "--to", "postgres://u@127.0.0.1/d"],
      "--to: must be a store of another kind",
    ],
    [["--from", "sqlite:x", "--to", "postgres://u:secret@example.com/d"], "--to: must have sslmode=verify-full"],
    [["--from", "sqlite:x"], "--to: is missing"],
    [["--to", "postgres://u@127.0.0.1/d"], "required option '--from"],
  ])("%j fails", async (options, problem) => {
    const { code, err } = await yes(...options);
    expect(code).toBe(1);
    expect(err).toContain(problem);
    expect(err).not.toContain("secret");
  });
});
