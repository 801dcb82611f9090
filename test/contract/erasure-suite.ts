/** The contract of `RecordsAdministration`, for any store. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { newRecordId, parseRecordId, type RecordId, recordIdTimeMs, type TenantId } from "../../src/base/ids.ts";
import type { Ledger } from "../../src/ledger/ports/ledger.ts";
import type { ErasureStatement, Idempotency, NewRecord } from "../../src/ledger/ports/record.ts";
import {
  type ErasedRecord,
  type ErasureResult,
  maxErasedAtOnce,
} from "../../src/ledger/ports/records-administration.ts";
import type { SearchTerm } from "../../src/ledger/ports/search.ts";
import type { RecordsAdministration } from "../../src/stores/sql/records-administration.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import { expectGapless } from "./ledger-suite.ts";
import type { StoreFixture } from "./store-fixture.ts";

/** What tests erase with that do not look at it. */
export const statement: ErasureStatement = { reason: "request 1", operator: "olga" };

const alice = tenant("alice");
const bob = tenant("bob");

/** What was erased; fails where it was refused. */
export function erasedOf(result: ErasureResult): readonly ErasedRecord[] {
  if ("refused" in result) throw new Error(`refused: ${JSON.stringify(result.refused)}`);
  return result.erased;
}

/** Checks one store against the contract. */
export function erasureSuite(name: string, makeFixture: () => Promise<StoreFixture>): void {
  describe(`erasure on ${name}`, () => {
    const random = seededRandom();
    let clock: ReturnType<typeof manualClock>;
    let makeRecord: ReturnType<typeof recordMaker>;
    let fixture: StoreFixture;
    let ledger: Ledger;
    let administration: RecordsAdministration;

    beforeEach(async () => {
      clock = manualClock();
      makeRecord = recordMaker(clock, random);
      fixture = await makeFixture();
      ledger = await fixture.open({ clock, random });
      administration = await fixture.administration({ clock, random });
    });
    afterEach(() => administration.close());

    const append = (tenantId: TenantId, changes: Partial<NewRecord> = {}) =>
      ledger.append(makeRecord(tenantId, changes));
    const erase = (tenantId: TenantId, ...recordIds: RecordId[]) =>
      administration.erase(tenantId, recordIds, statement);

    const holds = (tenantId: TenantId | undefined) => fixture.reading((archive) => archive.holds(tenantId));

    const problems = () => fixture.problems(clock.nowMs);

    test("rows beside a log match it, before and after an erasure", async () => {
      const idempotency = { scope: "ab".repeat(32), payloadDigest: `sha256:${"cd".repeat(32)}`, answer: { ok: true } };
      const { recordId } = await append(alice, { idempotency });
      await append(alice, { idempotency: { ...idempotency, scope: "ef".repeat(32) } });
      expect(await problems()).toEqual([]);
      await erase(alice, recordId);
      expect(await problems()).toEqual([]);
      clock.nowMs -= 3_600_000;
      expect(await problems()).toEqual([expect.stringContaining("ahead of the clock")]);
    });

    describe("after a clock that was 30 minutes ahead", () => {
      const aheadMs = 30 * 60_000;
      const kinds = async () => (await fixture.rows("alice")).map(({ leaf }) => JSON.parse(leaf).kind);
      const accept = (tenantId: TenantId) =>
        administration.acceptTime(tenantId, { reason: "the clock was wrong", operator: "olga" });
      const reopen = async () => {
        await ledger.close();
        ledger = await fixture.open({ clock, random });
      };
      beforeEach(async () => {
        clock.nowMs += aheadMs;
        await append(alice);
        await append(alice);
        await append(bob);
        clock.nowMs -= aheadMs;
        await expect(reopen()).rejects.toThrow("ledger clock accept");
      });

      test("a log whose time is accepted says so, and the service continues", async () => {
        expect(await accept(alice)).toBe(true);
        await expect(reopen()).rejects.toThrow("set the clock right");
        expect(await accept(bob)).toBe(true);
        await reopen();
        const id = idOf((await fixture.rows("alice"))[3]);
        expect(await ledger.find(alice, id)).toMatchObject({
          kind: "clock_acceptance",
          caller: { principal_id: "olga", subject: "olga", auth_source: "operator" },
          route: "ledger clock accept",
          recorded_at: "2026-01-02T03:34:05.006Z",
          request: { reason: "the clock was wrong" },
          outcome: { accepted_time: "2026-01-02T03:34:05.006Z", clock_time: "2026-01-02T03:04:05.006Z" },
        });
        expect(await erase(alice, id)).toMatchObject({ refused: [{ why: "kind", kind: "clock_acceptance" }] });
      });

      test("its verifiers find no fault, and times continue from the accepted one", async () => {
        await accept(alice);
        await accept(bob);
        await reopen();
        clock.nowMs += 60_000;
        const meanwhile = await append(alice);
        expect(meanwhile.recordedAt).toBe("2026-01-02T03:34:05.006Z");
        // The id has the time of the clock.
        expect(recordIdTimeMs(meanwhile.recordId)).toBe(clock.nowMs);
        await reopen();
        expect(await fixture.audit(alice)).toEqual({ leaves: 5, erased: 0, problem: undefined });
        expect(await problems()).toEqual([]);
        clock.nowMs += aheadMs;
        expect((await append(alice)).recordedAt).toBe("2026-01-02T03:35:05.006Z");
        await reopen();
        expect(await fixture.audit(alice)).toMatchObject({ leaves: 6, problem: undefined });
      });

      test("its time is accepted once, and a clock that is ahead again is refused again", async () => {
        expect(await accept(tenant("carol"))).toBe(false);
        await accept(bob);
        expect([await accept(alice), await accept(alice)]).toEqual([true, false]);
        expect(await kinds()).toEqual(["genesis", "decision", "decision", "clock_acceptance"]);
        await reopen();
        clock.nowMs += aheadMs + 300_000;
        await append(alice);
        clock.nowMs -= aheadMs + 300_000;
        await expect(reopen()).rejects.toThrow("ledger clock accept");
        expect(await problems()).toEqual([expect.stringContaining("ahead of the clock")]);
        expect([await accept(alice), await accept(alice)]).toEqual([true, false]);
        await reopen();
      });

      test("a log that is not ahead needs no acceptance", async () => {
        clock.nowMs += aheadMs - 300_000;
        expect(await accept(alice)).toBe(false);
        expect(await kinds()).toEqual(["genesis", "decision", "decision"]);
        await reopen();
      });
    });

    const search = (tenantId: TenantId, ...terms: SearchTerm[]) =>
      fixture.reading(async (archive) => (await archive.search({ tenantId, terms, limit: 10 })).found);

    test("an erased record is gone for readers, and the log says so and still verifies", async () => {
      await append(alice);
      const { recordId } = await append(alice);
      await append(alice);
      const before = await fixture.rows("alice");
      clock.nowMs += 1_000;
      const result = await administration.erase(alice, [recordId], { reason: "request 7", operator: "olga" });
      expect(result).toEqual({
        erased: [
          { recordId, leafIndex: 2, erasureLeafIndex: 4, erasedAt: "2026-01-02T03:04:06.006Z", wasErased: false },
        ],
        overwritten: fixture.kind === "SQLite" ? true : undefined,
      });
      expect(await ledger.find(alice, recordId)).toBe("erased");
      expect(await fixture.audit(alice)).toEqual({ leaves: 5, erased: 1, problem: undefined });
      const after = await fixture.rows("alice");
      expect(after.slice(0, 4)).toEqual(before);
      expect(after[4]?.leaf).not.toMatch(/request 7|olga|alice/);
      expect(await ledger.find(alice, idOf(after[4]))).toMatchObject({
        kind: "erasure",
        caller: { principal_id: "olga", subject: "olga", auth_source: "operator" },
        route: "ledger erase",
        request: { record_id: recordId, reason: "request 7" },
        outcome: { kind: "decision", leaf_index: 2, kept_answers: 0 },
      });
    });

    test("a record that is erased already stays so, and the answer says since when", async () => {
      const [a, b] = [await append(alice), await append(alice)];
      const [first] = erasedOf(await erase(alice, a.recordId));
      clock.nowMs += 60_000;
      expect(erasedOf(await erase(alice, a.recordId))).toEqual([{ ...first, wasErased: true }]);
      await expectGapless(fixture, "alice", 4);
      expect(erasedOf(await erase(alice, a.recordId, b.recordId))).toEqual([
        { ...first, wasErased: true },
        expect.objectContaining({ recordId: b.recordId, erasureLeafIndex: 4, wasErased: false }),
      ]);
    });

    test("one record that must not be erased keeps the others too", async () => {
      const good = await append(alice);
      const erased = await append(alice);
      await erase(alice, erased.recordId);
      const [genesis, , , erasure] = await fixture.rows("alice");
      const foreign = await append(bob);
      const before = await fixture.rows("alice");
      const ids = [good.recordId, foreign.recordId, idOf(genesis), idOf(erasure), erased.recordId];
      expect(await erase(alice, ...ids)).toEqual({
        refused: [
          { recordId: foreign.recordId, why: "unknown" },
          { recordId: ids[2], why: "kind", kind: "genesis" },
          { recordId: ids[3], why: "kind", kind: "erasure" },
        ],
      });
      expect(await fixture.rows("alice")).toEqual(before);
      expect(await ledger.find(alice, good.recordId)).toMatchObject({ record_id: good.recordId });
      expect(await erase(tenant("nobody"), good.recordId)).toEqual({
        refused: [{ recordId: good.recordId, why: "unknown" }],
      });
      const many = Array.from({ length: maxErasedAtOnce + 1 }, () => newRecordId(clock, random));
      await expect(erase(alice, ...many)).rejects.toThrow(RangeError);
    });

    test("a retry of an erased record's call is refused, and not recorded again", async () => {
      const idempotency: Idempotency = { scope: "7".repeat(64), payloadDigest: "sha256:1", answer: { a: 1 } };
      const { recordId } = await append(alice, { idempotency });
      expect(await append(alice, { idempotency })).toMatchObject({ recordId });
      await erase(alice, recordId);
      const retry = append(alice, { idempotency });
      await expect(retry).rejects.toMatchObject({ reason: "idempotency_conflict", message: /erased/ });
      const [, , erasure] = await fixture.rows("alice");
      expect(await ledger.find(alice, idOf(erasure))).toMatchObject({ outcome: { kept_answers: 1 } });
    });

    test("an erased registration or event may have been of any decision before it", async () => {
      const told = { allow: true, guidance: { evidence_expected: [] } };
      const question = { route: "/access/v1/evaluation" };
      const decided = [await append(alice, question), await append(alice, { outcome: told }), await append(alice)];
      const [asked] = decided;
      const codes = async () => {
        const term = { field: "outcome" as const, value: "allow" };
        const page = await fixture.reading((archive) =>
          archive.search({ tenantId: alice, terms: [term], limit: 9, summary: true }),
        );
        return page.found.map(({ summary }) => summary?.evidence);
      };
      expect(await codes()).toEqual(["not_expected", "not_expected", "missing"]);
      const request = { decision_id: asked?.recordId };
      const outcome = { accepted: true, citation: "matched" };
      const registered = await append(alice, { kind: "registration", request, outcome });
      expect(await codes()).toEqual(["missing", "not_expected", "missing"]);
      await erase(alice, registered.recordId);
      expect(await codes()).toEqual(["not_shown", "not_expected", "missing"]);
      const event = await append(alice, { kind: "evidence" });
      await erase(alice, event.recordId);
      await append(alice, question);
      const before = ["not_shown", "not_expected", "not_shown", "not_expected"];
      expect(await codes()).toEqual(before);
      const { recordId: decision_id } = await append(alice);
      const done = await append(alice, {
        kind: "evidence",
        request: { decision_id },
        outcome: { citation: "matched" },
      });
      expect(await codes()).toEqual([...before, "evidenced"]);
      // Lost, and not erased.
      await fixture.deleteOpening("alice", done.recordId);
      expect(await codes()).toEqual([...before, "not_shown"]);
    });

    test("a record restored by a backup stays hidden, and is erased again on request", async () => {
      const idempotency: Idempotency = { scope: "8".repeat(64), payloadDigest: "sha256:1", answer: { a: 1 } };
      const [a, b] = [await append(alice, { idempotency }), await append(alice)];
      const kept = await append(alice);
      const putBack = await fixture.backUpOpenings();
      await erase(alice, a.recordId, b.recordId);
      await putBack();
      const looksErased = async () => {
        for (const { recordId } of [a, b]) {
          expect(await ledger.find(alice, recordId)).toBe("erased");
          await fixture.reading(async (archive) => expect(await archive.find(alice, recordId)).toBe("erased"));
        }
        expect(await ledger.find(alice, kept.recordId)).toMatchObject({ record_id: kept.recordId });
        const retry = append(alice, { idempotency });
        await expect(retry).rejects.toMatchObject({ reason: "idempotency_conflict", message: /erased/ });
        const found = await search(alice, { field: "subject", value: "subject-1" });
        expect(found.map(({ recordId }) => recordId)).toEqual([expect.any(String), kept.recordId]);
        expect(await fixture.audit(alice)).toEqual({ leaves: 6, erased: 2, problem: undefined });
      };
      const undone = [
        { tenantId: alice, recordId: a.recordId, leafIndex: 1, erasureLeafIndex: 4, refusal: undefined },
        { tenantId: alice, recordId: b.recordId, leafIndex: 2, erasureLeafIndex: 5, refusal: undefined },
      ];
      await looksErased();
      await fixture.rebuild(alice, { random });
      await looksErased();
      const warnings: string[] = [];
      await ledger.close();
      const logger = { info() {}, warn: (_fields: unknown, message: string) => void warnings.push(message) };
      ledger = await fixture.open({ clock, random, logger });
      await looksErased();
      expect(warnings.filter((line) => line.includes("ledger reapply-erasures"))).toEqual([
        expect.stringMatching(/^tenant alice: openings or kept answers of 2 erased records are in the store again/),
      ]);
      // Nothing was removed so far: not by readers, and not at the start.
      await fixture.reading(async (archive) => expect(await archive.undoneErasures()).toEqual(undone));
      expect(await administration.reapplyErasures(bob, statement)).toMatchObject({ reapplied: [], left: [] });
      const overwritten = fixture.kind === "SQLite" ? true : undefined;
      expect(await administration.reapplyErasures(undefined, statement)).toEqual({
        reapplied: undone,
        left: [],
        overwritten,
      });
      await looksErased();
      await fixture.reading(async (archive) => expect(await archive.undoneErasures()).toEqual([]));
    });

    test("a hold keeps what a backup restored, and readers see none of it", async () => {
      const [a, b] = [await append(alice), await append(bob)];
      const putBack = await fixture.backUpOpenings();
      await erase(alice, a.recordId);
      await erase(bob, b.recordId);
      await putBack();
      const hold = { tenantId: alice, recordId: undefined, reason: "case 12", placedAtMs: clock.nowMs };
      await administration.placeHold(hold);
      const held = { tenantId: alice, recordId: a.recordId, leafIndex: 1, erasureLeafIndex: 2 };
      expect(await administration.reapplyErasures(undefined, statement)).toMatchObject({
        reapplied: [{ tenantId: bob, recordId: b.recordId, erasureLeafIndex: 2 }],
        left: [{ ...held, refusal: { why: "held", hold } }],
      });
      expect(await ledger.find(alice, a.recordId)).toBe("erased");
      await administration.releaseHold(alice, undefined, statement);
      expect(await administration.reapplyErasures(alice, statement)).toMatchObject({ reapplied: [held], left: [] });
    });

    test("erasing what a backup restored removes it again, under the leaf of its erasure, unless it is held", async () => {
      const idempotency: Idempotency = { scope: "9".repeat(64), payloadDigest: "sha256:1", answer: { a: 1 } };
      const [a, b] = [await append(alice, { idempotency }), await append(alice)];
      const putBack = await fixture.backUpOpenings();
      const first = erasedOf(await erase(alice, a.recordId));
      await putBack();
      const preview = () => fixture.reading((archive) => archive.previewErasure(alice, [a.recordId]));
      expect(await preview()).toMatchObject({ erasable: [{ recordId: a.recordId, leafIndex: 1 }], erased: [] });
      await administration.placeHold({ tenantId: alice, recordId: undefined, reason: "case 12" });
      expect(await erase(alice, a.recordId)).toMatchObject({ refused: [{ recordId: a.recordId, why: "held" }] });
      await administration.releaseHold(alice, undefined, statement);
      expect(erasedOf(await erase(alice, a.recordId))).toEqual(first);
      expect(await fixture.query("SELECT record_id FROM openings WHERE tenant_id = 'alice'")).not.toContainEqual(
        expect.objectContaining({ record_id: a.recordId }),
      );
      expect(await fixture.query("SELECT sealed FROM kept_answers")).toMatchObject([{ sealed: null }]);
      await fixture.reading(async (archive) => expect(await archive.undoneErasures()).toEqual([]));
      expect(await preview()).toMatchObject({ erasable: [], erased: [{ recordId: a.recordId, wasErased: true }] });
      expect(erasedOf(await erase(alice, a.recordId, b.recordId))).toMatchObject([
        { wasErased: true },
        { wasErased: false },
      ]);
      expect(await fixture.audit(alice)).toEqual({ leaves: 6, erased: 2, problem: undefined });
    });

    test("a row of an erasure without a leaf removes nothing", async () => {
      const [a, b] = [await append(alice), await append(alice)];
      await fixture.query(`INSERT INTO erasures VALUES ('alice', '${a.recordId}', 1, 2)`);
      const unproven = { recordId: a.recordId, refusal: { why: "unproven" } };
      expect(await erase(alice, a.recordId)).toEqual({ refused: [{ recordId: a.recordId, why: "unproven" }] });
      expect(await administration.reapplyErasures(undefined, statement)).toMatchObject({
        reapplied: [],
        left: [unproven],
      });
      expect(await ledger.find(alice, b.recordId)).toMatchObject({ record_id: b.recordId });
      expect((await fixture.audit(alice)).problem).toMatchObject({ leafIndex: 1, message: /no leaf erased them/ });
    });

    test("an opening that is lost without an erasure is damage, until the record is erased", async () => {
      const [a, b] = [await append(alice), await append(alice)];
      await fixture.deleteOpening("alice", b.recordId);
      expect(await fixture.audit(alice)).toMatchObject({
        erased: 0,
        problem: { leafIndex: 2, message: "1 record cannot be opened, and no leaf erased them: the first is leaf 2" },
      });
      await erase(alice, b.recordId);
      expect(await fixture.audit(alice)).toEqual({ leaves: 4, erased: 1, problem: undefined });
      const [, , , erasure] = await fixture.rows("alice");
      await fixture.deleteOpening("alice", idOf(erasure));
      expect((await fixture.audit(alice)).problem).toMatchObject({
        leafIndex: 3,
        message: /of kind erasure cannot be opened/,
      });
      expect(await ledger.find(alice, a.recordId)).toMatchObject({ record_id: a.recordId });
    });

    test("two concurrent erasures of the same record write one leaf", async () => {
      const { recordId } = await append(alice);
      const other = await fixture.administration({ clock, random: seededRandom("other") });
      const results = await Promise.all([
        erase(alice, recordId),
        other.erase(alice, [recordId], { reason: "twice", operator: "olga" }),
      ]);
      await other.close();
      const [before, after] = results.flatMap(erasedOf).map(({ wasErased }) => wasErased);
      expect(before).not.toBe(after);
      expect(await fixture.audit(alice)).toEqual({ leaves: 3, erased: 1, problem: undefined });
    });

    describe("a legal hold", () => {
      test("on a record forbids its erasure until it is released, across restarts", async () => {
        const [a, b] = [await append(alice), await append(alice)];
        const hold = { tenantId: alice, recordId: a.recordId, reason: "case 12", placedAtMs: clock.nowMs };
        expect(await administration.placeHold(hold)).toEqual(hold);
        await administration.close();
        administration = await fixture.administration({ clock, random });
        expect(await erase(alice, b.recordId, a.recordId)).toEqual({
          refused: [{ recordId: a.recordId, why: "held", hold }],
        });
        expect(await ledger.find(alice, b.recordId)).toMatchObject({ record_id: b.recordId });
        expect(await administration.releaseHold(alice, a.recordId, statement)).toEqual(hold);
        expect(await administration.releaseHold(alice, a.recordId, statement)).toBeUndefined();
        const [, released] = (await fixture.rows("alice")).slice(-2).map(({ leaf }) => JSON.parse(leaf));
        expect(released.kind).toBe("hold_release");
        expect(await ledger.find(alice, released.record_id)).toMatchObject({
          caller: { principal_id: "olga", auth_source: "operator" },
          request: { record_id: a.recordId, reason: statement.reason },
          outcome: { placed_at: new Date(hold.placedAtMs).toISOString() },
        });
        expect(await erase(alice, released.record_id)).toMatchObject({ refused: [{ why: "kind" }] });
        expect(erasedOf(await erase(alice, b.recordId, a.recordId))).toHaveLength(2);
      });

      test("on a tenant covers all its present and future records, and none of others", async () => {
        const early = await append(alice);
        const hold = { tenantId: alice, recordId: undefined, reason: "inquiry", placedAtMs: clock.nowMs };
        expect(await administration.placeHold(hold)).toEqual(hold);
        const late = await append(alice);
        for (const { recordId } of [early, late])
          expect(await erase(alice, recordId)).toEqual({ refused: [{ recordId, why: "held", hold }] });
        const foreign = await append(bob);
        expect(erasedOf(await erase(bob, foreign.recordId))).toHaveLength(1);
        // One on a record does not end with that of the tenant, nor the other way round.
        await administration.placeHold({ tenantId: alice, recordId: late.recordId, reason: "case 13" });
        expect(await administration.releaseHold(alice, undefined, statement)).toEqual(hold);
        expect(await erase(alice, late.recordId)).toMatchObject({
          refused: [{ why: "held", hold: { reason: "case 13" } }],
        });
        expect(erasedOf(await erase(alice, early.recordId))).toHaveLength(1);
      });

      test("stays as it is if it is placed again", async () => {
        const { recordId } = await append(alice);
        const hold = await administration.placeHold({ tenantId: alice, recordId, reason: "first" });
        clock.nowMs += 5;
        expect(await administration.placeHold({ tenantId: alice, recordId, reason: "second" })).toEqual(hold);
        expect(await holds(alice)).toEqual([hold]);
      });

      test("on an unknown record is refused", async () => {
        const [a, b] = [await append(alice), await append(bob)];
        await erase(alice, a.recordId);
        const placeHold = (tenantId: TenantId, recordId: RecordId | undefined) =>
          administration.placeHold({ tenantId, recordId, reason: "case 14" });
        expect(await placeHold(alice, a.recordId)).toBe("erased");
        expect(await placeHold(alice, b.recordId)).toBe("unknown");
        expect(await placeHold(tenant("nobody"), undefined)).toBe("unknown");
        expect(await holds(undefined)).toEqual([]);
      });

      test("does not undo an erasure: on an erased record it is refused as erased", async () => {
        const { recordId } = await append(alice);
        await erase(alice, recordId);
        await administration.placeHold({ tenantId: alice, recordId: undefined, reason: "inquiry" });
        expect(erasedOf(await erase(alice, recordId))).toMatchObject([{ wasErased: true }]);
      });

      test("is listed, for one tenant or all", async () => {
        const [a, b] = [await append(alice), await append(bob)];
        const placeHold = (tenantId: TenantId, recordId: RecordId | undefined) =>
          administration.placeHold({ tenantId, recordId, reason: "case 15" });
        const placed = [
          await placeHold(bob, b.recordId),
          await placeHold(alice, a.recordId),
          await placeHold(alice, undefined),
        ];
        expect(await holds(undefined)).toEqual(placed.toReversed());
        expect(await holds(bob)).toEqual([placed[0]]);
      });
    });
  });
}

function idOf(row: { readonly recordId: string } | undefined): RecordId {
  const id = row && parseRecordId(row.recordId);
  if (id === undefined) throw new Error("There is no such record.");
  return id;
}
