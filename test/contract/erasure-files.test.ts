/** What an erasure leaves in the files of an SQLite store, when it fails, and when older files come back. */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { TenantId } from "../../src/base/ids.ts";
import type { ServiceLedger } from "../../src/ledger/append/ledger.ts";
import type { Appended } from "../../src/ledger/ports/ledger.ts";
import type { NewRecord } from "../../src/ledger/ports/record.ts";
import { openSqliteArchive } from "../../src/stores/sqlite/backend.ts";
import { migrations } from "../../src/stores/sqlite/schema.ts";
import { erasedOf, statement } from "./erasure-suite.ts";
import { type Fault, FaultControl, prepare } from "./ledger-faulty-connection.ts";
import { recordKit, tenant } from "./ledger-records.ts";
import { type SqliteFixture, sqliteFixture } from "./ledger-sqlite-fixture.ts";
import { expectGapless } from "./ledger-suite.ts";
import { indexRows } from "./settled-search.ts";

const { clock, random, makeRecord } = recordKit();
const alice = tenant("alice");

let fixture: SqliteFixture;
let ledger: ServiceLedger;

beforeEach(async () => {
  fixture = sqliteFixture();
  ledger = await fixture.open({ clock, random });
});

const append = (tenantId = alice, changes: Partial<NewRecord> = {}) => ledger.append(makeRecord(tenantId, changes));

const erase = (tenantId: TenantId, recordIds: readonly Appended["recordId"][]) =>
  fixture.administering({ clock, random }, (administration) => administration.erase(tenantId, recordIds, statement));

/** Those of the values that a file of the store holds. */
function onDisk(values: readonly Uint8Array[]): readonly Uint8Array[] {
  const paths = ["", "-wal"].map((suffix) => fixture.path + suffix).filter((path) => existsSync(path));
  const files = Buffer.concat(paths.map((path) => readFileSync(path)));
  return values.filter((value) => files.includes(value));
}

const openingOf = ({ receipt }: Appended) => Buffer.from(receipt.opening ?? "", "base64");

describe("bytes", () => {
  test("of erased openings are in no file while the service has them open; all others are", async () => {
    const tenants = Array.from({ length: 30 }, (_, i) => tenant(`tenant-${i}`));
    const appended = await Promise.all(
      Array.from({ length: 600 }, async (_, i) => {
        const tenantId = tenants[i % 30] ?? alice;
        return { tenantId, ...(await append(tenantId)) };
      }),
    );
    const erased = appended.filter((_, i) => i % 7 === 0);
    expect(onDisk(erased.map(openingOf))).toHaveLength(erased.length);
    for (const [tenantId, records] of Map.groupBy(erased, (one) => one.tenantId)) {
      const recordIds = records.map(({ recordId }) => recordId);
      expect(await erase(tenantId, recordIds)).toMatchObject({ overwritten: true });
    }
    expect(onDisk(appended.map(openingOf))).toEqual(appended.filter((_, i) => i % 7 !== 0).map(openingOf));
  });

  test("that a reader keeps alive are reported, and gone after the next erasure of the same record", async () => {
    const one = await append();
    const reader = openSqliteArchive(fixture.store);
    await reader.logs(); // from now on it sees the store as it is
    expect(await erase(alice, [one.recordId])).toMatchObject({ overwritten: false, erased: [{ wasErased: false }] });
    expect(onDisk([openingOf(one)])).toHaveLength(1);
    expect(await ledger.find(alice, one.recordId)).toBe("erased");
    await reader.close();
    expect(await erase(alice, [one.recordId])).toMatchObject({ overwritten: true, erased: [{ wasErased: true }] });
    expect(onDisk([openingOf(one)])).toEqual([]);
  });
});

describe.each(["failBefore", "failAfter"] satisfies Fault[])("if an operation meets %s", (fault) => {
  test("an erasure is complete or absent, and a repeat completes it", async () => {
    let leaves = 1;
    let committed = 0;
    let untouched = 0;
    for (let operation = 1, reached = true; reached; operation++) {
      const idempotency = { scope: String(operation).padStart(64, "0"), payloadDigest: "sha256:1", answer: {} };
      const one = await append(alice, { idempotency });
      leaves += 1;
      await fixture.settle();
      const control = new FaultControl();
      const restore = prepare(control.cells);
      const administration = await fixture.administration({ clock, random });
      control.arm(fault, operation);
      const [result] = await Promise.allSettled([administration.erase(alice, [one.recordId], statement)]);
      reached = !control.isArmed;
      await administration.close();
      restore();
      expect(result.status).toBe(reached ? "rejected" : "fulfilled");
      const found = await ledger.find(alice, one.recordId);
      const [row] = fixture.query(
        `SELECT (SELECT count(*) FROM openings WHERE record_id = ?1) AS openings,
                (SELECT count(*) FROM erasures WHERE record_id = ?1) AS erasures,
                (SELECT count(*) FROM kept_answers JOIN entries USING (tenant_id, leaf_index)
                  WHERE record_id = ?1 AND kept_answers.sealed IS NOT NULL) AS answers`,
        one.recordId,
      );
      const terms = (await indexRows(fixture.query)).filter(({ leafIndex }) => leafIndex === one.leafIndex).length;
      if (found === "erased") {
        leaves += 1;
        committed += 1;
        expect({ ...row, terms }).toEqual({ openings: 0, erasures: 1, terms: 0, answers: 0 });
      } else {
        untouched += 1;
        expect({ ...row, terms }).toEqual({
          openings: 1,
          erasures: 0,
          terms: expect.toSatisfy((count) => count > 0),
          answers: 1,
        });
      }
      await expectGapless(fixture, "alice", leaves);
      expect(erasedOf(await erase(alice, [one.recordId]))).toMatchObject([{ wasErased: found === "erased" }]);
      if (found !== "erased") leaves += 1;
      expect(await fixture.audit(alice)).toEqual({ leaves, erased: operation, problem: undefined });
    }
    // BEGIN to COMMIT, with the record's four tables, leaf, tiles, head and note between them; anchor and files after.
    expect(untouched).toBeGreaterThan(15);
    expect(committed).toBeGreaterThan(6);
  });
});

describe("older files", () => {
  /** What an operator does who accepts that the store is an older one. */
  function acceptOlder(): void {
    const [head] = fixture.query("SELECT size, hex(root) AS root FROM log_heads");
    fixture.queryAnchor(`UPDATE anchored_logs SET size = ${head?.size}, root = unhex('${head?.root}')`);
  }

  /** Puts the whole store back to what it was before records were erased, and the anchor with it, but for its notes. */
  async function putOlderBack(...erased: readonly Appended[]): Promise<void> {
    await ledger.close();
    const putBack = fixture.backUp(fixture.path);
    const recordIds = erased.map(({ recordId }) => recordId);
    await erase(alice, recordIds);
    putBack();
    expect(onDisk(erased.map(openingOf))).toHaveLength(erased.length);
  }

  const reapply = () =>
    fixture.administering({ clock, random }, (administration) => administration.reapplyErasures(undefined, statement));

  /** One row that an attacker puts into the anchor's file. */
  const note = (recordId: string) => fixture.queryAnchor("INSERT INTO erased_records VALUES ('alice', ?)", recordId);

  test("of the whole store do not show erased records: the anchor notes them", async () => {
    const idempotency = { scope: "9".repeat(64), payloadDigest: "sha256:1", answer: {} };
    const [one, other] = [await append(alice, { idempotency }), await append()];
    await putOlderBack(one);
    await expect(fixture.open({ clock, random })).rejects.toMatchObject({ name: "IncompatibleStoreError" });
    await fixture.reading(async (archive) => expect(await archive.find(alice, one.recordId)).toBe("erased"));
    acceptOlder();
    const warnings: string[] = [];
    const logger = { info() {}, warn: (_fields: unknown, message: string) => void warnings.push(message) };
    ledger = await fixture.open({ clock, random, logger });
    expect(warnings).toEqual([expect.stringMatching(/^tenant alice: the anchor notes the erasure of 1 record, and/)]);
    expect(await ledger.find(alice, one.recordId)).toBe("erased");
    expect(await ledger.find(alice, other.recordId)).toMatchObject({ record_id: other.recordId });
    const retry = append(alice, { idempotency });
    await expect(retry).rejects.toMatchObject({ reason: "idempotency_conflict", message: /erased/ });
    expect(await fixture.audit(alice)).toEqual({ leaves: 3, erased: 0, problem: undefined });
    expect(onDisk([openingOf(one)])).toHaveLength(1);

    const place3 = { tenantId: alice, recordId: one.recordId, leafIndex: 1, erasureLeafIndex: 3 };
    expect(await reapply()).toEqual({ reapplied: [place3], left: [], overwritten: true });
    expect(onDisk([openingOf(one)])).toEqual([]);
    expect(await ledger.find(alice, one.recordId)).toBe("erased");
    expect(await fixture.audit(alice)).toEqual({ leaves: 4, erased: 1, problem: undefined });
    expect(await append()).toMatchObject({ leafIndex: 4 });
  });

  test("of the whole store keep held records, whatever the anchor notes", async () => {
    const one = await append();
    await putOlderBack(one);
    acceptOlder();
    await fixture.administering({ clock, random }, (administration) =>
      administration.placeHold({ tenantId: alice, recordId: one.recordId, reason: "case 12" }),
    );
    expect(await reapply()).toMatchObject({
      reapplied: [],
      left: [{ recordId: one.recordId, refusal: { why: "held" } }],
    });
    expect(onDisk([openingOf(one)])).toHaveLength(1);
    expect(await fixture.audit(alice)).toEqual({ leaves: 2, erased: 0, problem: undefined });
  });

  test("of the whole store lose what is not held, if a hold comes while they are erased again", async () => {
    const [held, other] = [await append(), await append()];
    await putOlderBack(held, other);
    acceptOlder();
    const { exec } = DatabaseSync.prototype;
    // What must be erased was read before the transaction.
    const hold = "INSERT OR IGNORE INTO legal_holds VALUES ('alice', ?, 'case 12', 1)";
    vi.spyOn(DatabaseSync.prototype, "exec").mockImplementation(function (this: DatabaseSync, text) {
      if (text.startsWith("BEGIN") && this.location() === fixture.path) fixture.query(hold, held.recordId);
      exec.call(this, text);
    });
    const result = await fixture
      .administering({ clock, random }, (administration) => administration.reapplyErasures(undefined, statement))
      .finally(vi.restoreAllMocks);
    expect(result).toMatchObject({
      reapplied: [{ recordId: other.recordId }],
      left: [{ recordId: held.recordId, refusal: { why: "held" } }],
    });
    expect(onDisk([held, other].map(openingOf))).toEqual([openingOf(held)]);
  });

  test("whose anchor notes records that must never be erased lose nothing", async () => {
    await append();
    const [genesis] = await fixture.rows("alice");
    note(genesis?.recordId ?? "");
    const recordId = genesis?.recordId as Appended["recordId"];
    await fixture.reading(async (archive) =>
      expect(await archive.find(alice, recordId)).toMatchObject({ kind: "genesis" }),
    );
    expect(await reapply()).toMatchObject({ reapplied: [], left: [{ refusal: { why: "kind", kind: "genesis" } }] });
    expect(await fixture.audit(alice)).toEqual({ leaves: 2, erased: 0, problem: undefined });
  });

  test("beside the anchor of another store ignore its notes", async () => {
    const one = await append();
    await ledger.close();
    note(one.recordId);
    fixture.queryAnchor("UPDATE anchored_store SET store_id = 'another'");
    await fixture.reading(async (archive) => {
      expect(await archive.find(alice, one.recordId)).toMatchObject({ record_id: one.recordId });
      expect(await archive.undoneErasures()).toEqual([]);
    });
    await expect(reapply()).rejects.toMatchObject({ name: "IncompatibleStoreError" });
    expect(onDisk([openingOf(one)])).toHaveLength(1);
  });

  test("an anchor that lost its notes gets them from the store", async () => {
    const one = await append();
    await erase(alice, [one.recordId]);
    await ledger.close();
    const anchored = () => fixture.queryAnchor("DELETE FROM erased_records RETURNING tenant_id, record_id");
    expect(anchored()).toEqual([{ tenant_id: "alice", record_id: one.recordId }]);
    ledger = await fixture.open({ clock, random });
    expect(anchored()).toEqual([{ tenant_id: "alice", record_id: one.recordId }]);
  });

  test("a log that is older than its anchor accepts no erasure, as it accepts no append", async () => {
    const [one] = [await append(), await append()];
    fixture.queryAnchor("UPDATE anchored_logs SET size = size + 1");
    await expect(erase(alice, [one.recordId])).rejects.toMatchObject({ name: "UnsoundLogError" });
    expect(await ledger.find(alice, one.recordId)).toMatchObject({ record_id: one.recordId });
  });

  test.each([
    ["without its anchor", () => rmSync(fixture.store.anchorPath), /is missing/],
    [
      "with the anchor of another store",
      () => fixture.query("UPDATE store SET store_id = 'other'"),
      /not the anchor of this/,
    ],
    [
      "of an older schema",
      () => fixture.query(`PRAGMA user_version = ${migrations.length - 1}`),
      /run `migrate` first/,
    ],
    ["of a newer schema", () => fixture.query(`PRAGMA user_version = ${migrations.length + 1}`), /newer version/],
  ])("a store %s is not written to", async (_, change, message) => {
    const one = await append();
    await ledger.close();
    change();
    await expect(erase(alice, [one.recordId])).rejects.toMatchObject({ name: "IncompatibleStoreError", message });
  });
});
