/** What every store promises of registrations: exactly those that are relied on are found, by the names of artifacts. */
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { parsePrincipalId, type RecordId, type TenantId } from "../../src/base/ids.ts";
import {
  countingRegistrations,
  nameOfDecision,
  type Registration,
  registrationsOf,
  reliedOn,
} from "../../src/ledger/artifacts/registrations.ts";
import type { Ledger } from "../../src/ledger/ports/ledger.ts";
import type { NewRecord } from "../../src/ledger/ports/record.ts";
import { erasedOf, statement } from "./erasure-suite.ts";
import { recordKit, seededRandom, tenant } from "./ledger-records.ts";
import type { RebuildOptions, StoreFixture } from "./store-fixture.ts";

const alice = tenant("alice");
const bob = tenant("bob");
const digest = `sha256:${"ab".repeat(32)}`;
const other = `sha256:${"cd".repeat(32)}`;

/** Whose it is, what it says, and what became of its citation. */
interface Said {
  readonly by?: string;
  readonly labels?: readonly string[];
  readonly citation?: string;
  readonly rewraps?: readonly string[];
  readonly digest?: string;
  readonly cid?: string;
  readonly decision?: string;
  /** Length of some unread text. */
  readonly padding?: number;
}

/** Checks one store against the contract. */
export function registrationSuite(name: string, makeFixture: () => Promise<StoreFixture>): void {
  describe(`registrations on ${name}`, () => {
    const { clock, random, makeRecord } = recordKit("registrations");
    let fixture: StoreFixture;
    let ledger: Ledger;

    beforeEach(async () => {
      fixture = await makeFixture();
      ledger = await fixture.open({ clock, random });
    });

    const registration = (tenantId: TenantId, said: Said): NewRecord => {
      const record = makeRecord(tenantId, { kind: "registration" });
      const principal_id = parsePrincipalId(said.by ?? "owner");
      if (principal_id === undefined) throw new Error("The test's own value is malformed.");
      const { citation = "none", rewraps, cid, decision, padding, labels = [] } = said;
      const request = {
        artifact_digest: said.digest ?? digest,
        labels,
        ...(padding !== undefined && { attributes: { padding: "x".repeat(padding) } }),
        ...(cid !== undefined && { artifact_cid: cid }),
        ...(decision !== undefined && { decision_id: decision }),
      };
      const outcome = {
        accepted: citation === "none" || citation === "matched",
        citation,
        ...(rewraps && { rewraps }),
      };
      return { ...record, caller: { ...record.caller, principal_id }, request, outcome };
    };
    const register = async (said: Said = {}, tenantId = alice, to = ledger): Promise<RecordId> =>
      (await to.append(registration(tenantId, said))).recordId;
    /** Ids of what is found under each name. */
    const found = async (names: readonly string[] = [digest], tenantId = alice, from = ledger) =>
      (await from.registrations(tenantId, names)).map((one) =>
        typeof one === "string" ? one : one.map(({ recordId }) => recordId),
      );
    const erase = async (...recordIds: readonly RecordId[]) =>
      erasedOf(
        await fixture.administering({ clock, random }, (administration) =>
          administration.erase(alice, recordIds, statement),
        ),
      );
    const problems = () => fixture.problems(clock.now());
    const rebuild = (before: RebuildOptions["before"] = async () => {}) => fixture.rebuild(alice, { random, before });

    test("finds a tenant's own registrations by each name, with their records", async () => {
      const own = await register({ labels: ["restricted"], digest: digest.toUpperCase().replace("SHA", "sha") });
      const [records] = await ledger.registrations(alice, [digest]);
      expect(records).toEqual([
        { recordId: own, leafIndex: 1, record: expect.objectContaining({ record_id: own, tenant_id: alice }) },
      ]);
      expect(await found([other, digest, other])).toEqual([[], [own], []]);
      expect(await found([digest], bob)).toEqual([[]]);
      await register({ labels: ["of bob"] }, bob);
      expect(await found()).toEqual([[own]]);
      expect(await problems()).toEqual([]);
    });

    test("excludes decisions, events, and registrations that were not accepted", async () => {
      await register({ citation: "mismatch" });
      await ledger.append(makeRecord(alice, { request: { artifact_digest: digest } }));
      await ledger.append(makeRecord(alice, { kind: "evidence", request: { artifact_digest: digest } }));
      expect(await found()).toEqual([[]]);
      expect(await problems()).toEqual([]);
    });

    test("finds on one replica at once what another acknowledged", async () => {
      const replica = await fixture.open({ clock, random: seededRandom("replica") });
      for (const labels of [["a"], ["b"], ["c"]]) {
        const recordId = await register({ labels }, alice, replica);
        expect((await found()).flat().at(-1)).toBe(recordId);
      }
      // The key was made by one of them: both use it.
      const own = await register({ digest: other });
      expect(await found([other], alice, replica)).toEqual([[own]]);
    });

    test("of any history returns exactly the relied-on registrations, at every moment, in batches and after a restart", async () => {
      const said = fc.record({
        by: fc.constantFrom("owner", "stranger", "rotator"),
        labels: fc.subarray(["a", "b", "c"]),
        citation: fc.constantFrom("none", "matched", "mismatch"),
        rewraps: fc.constantFrom(undefined, [digest], [digest, other]),
        digest: fc.constantFrom(digest, other),
        cid: fc.constantFrom(undefined, "no cid"),
      });
      const property = fc.asyncProperty(
        fc.array(fc.array(said, { maxLength: 4 }), { maxLength: 4 }),
        async (batches) => {
          const tenantId = tenant(`t-${Buffer.from(random(new Uint8Array(8))).toString("hex")}`);
          const all: { readonly recordId: RecordId; readonly of: ReadonlyMap<string, Registration> }[] = [];
          for (const batch of batches) {
            const records = batch.map((one) => registration(tenantId, one as Said));
            const places = await Promise.all(records.map((record) => ledger.append(record)));
            places.forEach(({ recordId, leafIndex }, position) => {
              all.push({ recordId, of: registrationsOf(leafIndex, records[position] as NewRecord) });
            });
            for (const artifact of [digest, other, "cid:no cid"]) {
              const ofArtifact = all.flatMap(({ of }) => of.get(artifact) ?? []);
              const relied = reliedOn(countingRegistrations(ofArtifact));
              const expected = all.filter(({ of }) => relied.some((one) => one === of.get(artifact)));
              expect(await found([artifact], tenantId)).toEqual([expected.map(({ recordId }) => recordId)]);
            }
          }
        },
      );
      await fc.assert(property, { numRuns: 15 });
      expect(await problems()).toEqual([]);
      await ledger.close();
      ledger = await fixture.open({ clock, random });
      await register();
      expect(await problems()).toEqual([]);
    });

    test("of a decision finds each of its artifacts, in whatever order they were registered", async () => {
      const under = { citation: "matched", decision: "d" };
      const first = await register({ ...under, labels: [other] });
      const second = await register({ ...under, digest: other });
      await register(under);
      const last = await register(under);
      expect(await found([nameOfDecision("d"), digest, other])).toEqual([
        [first, second, last],
        [first, last],
        [second],
      ]);
      expect(await problems()).toEqual([]);
    });

    test("registrations of strangers leave no rows, and repeated ones of the owner stay few", async () => {
      const first = await register({ citation: "matched" });
      const many = Array.from({ length: 300 }, (_, position) => ({ by: position % 2 === 0 ? "stranger" : "owner" }));
      const last = (await Promise.all(many.map((said) => register({ ...said, citation: "matched" })))).at(-1);
      expect(await found()).toEqual([[first, last]]);
      expect(await fixture.query("SELECT leaf_index FROM registered_artifacts")).toHaveLength(151);
      await Promise.all(Array.from({ length: 70 }, (_, position) => register({ labels: [`${position}`] })));
      expect(await found()).toEqual(["too_many"]);
      await register({ citation: "matched" });
      expect(await found()).toEqual(["too_many"]);
      expect(await problems()).toEqual([]);
    });

    describe("large registrations", () => {
      const artifacts = ["1", "2", "3", "4"].map((digit) => `sha256:${digit.repeat(64)}`);
      const large = (labels: readonly string[]): readonly Said[] =>
        artifacts.map((own) => ({ digest: own, labels, padding: 400_000 }));

      test("are read in pages: by the next append to each of their artifacts, and by a rebuild", async () => {
        const ids: RecordId[][] = artifacts.map(() => []);
        for (const labels of [["a"], ["b"], ["c"], ["d"]]) {
          const registered = await Promise.all(large(labels).map((said) => register(said)));
          for (const [position, recordId] of registered.entries()) ids[position]?.push(recordId);
        }
        // Of each more than a page would be: what they say together is known, though a stranger says more.
        await Promise.all(artifacts.map((own) => register({ digest: own, by: "stranger", labels: ["e"] })));
        expect(await found(artifacts)).toEqual(ids);
        await rebuild();
        expect(await found(artifacts)).toEqual(ids);
        expect(await problems()).toEqual([]);
      });

      test("are unknown if there are more than a decision reads", async () => {
        const kept: RecordId[] = [];
        for (const label of "abcde") kept.push(await register({ digest: other, labels: [label], padding: 400_000 }));
        for (const label of "abcdef") await register({ labels: [label], padding: 400_000 });
        expect(await found([digest, other])).toEqual(["too_many", kept]);
        expect(await problems()).toEqual([]);
      });

      test("stay unknown, and leave no more rows, however small the next ones are", async () => {
        for (const label of "abcde") await register({ labels: [label], padding: 400_000 });
        // This one would be superseded by the next.
        await register({ padding: 400_000 });
        for (const _ of "1234") await register();
        expect(await found()).toEqual(["too_many"]);
        expect(await fixture.query("SELECT leaf_index FROM registered_artifacts")).toHaveLength(6);
        expect(await problems()).toEqual([]);
        await fixture.query("DELETE FROM registered_artifacts WHERE leaf_index = 6");
        expect((await problems())[0]).toMatch(/^leaf 6 is not found by the artifact/);
      });
    });

    describe("erasure", () => {
      test.each([
        ["the first", 0],
        ["one that others superseded", 1],
        ["the newest", 2],
      ])("of %s: nothing is known any more, including later registrations", async (_, position) => {
        const ids = [await register({ labels: ["restricted"] }), await register(), await register()];
        await erase(ids[position] as RecordId);
        expect(await found()).toEqual(["erased"]);
        await register({ citation: "matched" });
        expect(await found()).toEqual(["erased"]);
        expect(await found([other])).toEqual([[]]);
        expect(await problems()).toEqual([]);
      });

      test("of a stranger's registration changes nothing", async () => {
        const own = await register({ citation: "matched" });
        await erase(await register({ by: "stranger" }));
        expect(await found()).toEqual([[own]]);
        expect(await problems()).toEqual([]);
      });

      test("stays if a backup restores openings, and if the index is rebuilt", async () => {
        const own = await register({ labels: ["restricted"] });
        const kept = await register({ digest: other });
        const restore = await fixture.backUpOpenings();
        await erase(own);
        await restore();
        await register();
        expect(await found([digest, other])).toEqual(["erased", [kept]]);
        await fixture.administering({ clock, random }, (administration) =>
          administration.reapplyErasures(undefined, statement),
        );
        await rebuild();
        expect(await found([digest, other])).toEqual(["erased", [kept]]);
      });
    });

    describe("a rebuild", () => {
      test("indexes a log of any length", async () => {
        const first = await register({ labels: ["restricted"] });
        for (const length of [520, 520])
          await Promise.all(Array.from({ length }, () => ledger.append(makeRecord(alice))));
        const last = await register();
        await fixture.query("DELETE FROM registered_artifacts");
        expect(await found()).toEqual([[]]);
        await rebuild();
        expect(await found()).toEqual([[first, last]]);
        expect(await problems()).toEqual([]);
      });

      test("shows no partial result, and appends to the log wait for it", async () => {
        const [own, lost] = [await register({ labels: ["restricted"] }), await register({ digest: other })];
        await fixture.query("DELETE FROM registered_artifacts WHERE leaf_index = 2");
        const [begun, going] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
        const rebuilt = rebuild(async (statement) => {
          if (!statement.includes("AS up_to")) return;
          begun.resolve();
          await going.promise;
        });
        await begun.promise;
        const settled: string[] = [];
        const later = register({ digest: other, labels: ["later"] }).finally(() => settled.push("append"));
        const ofBob = fixture.kind === "PostgreSQL" ? await register({}, bob) : undefined;
        expect(await found([digest, other])).toEqual([[own], []]);
        expect(settled).toEqual([]);
        going.resolve();
        await rebuilt;
        const newest = await later;
        expect(await found([digest, other])).toEqual([[own], [lost, newest]]);
        if (ofBob !== undefined) expect(await found([digest], bob)).toEqual([[ofBob]]);
        expect(await problems()).toEqual([]);
      });

      test("that fails leaves the index as it was", async () => {
        const own = await register();
        const failing = rebuild(async (statement) => {
          if (statement.includes("AS up_to")) throw new RangeError("The test ends it.");
        });
        await expect(failing).rejects.toThrow("store");
        expect(await found()).toEqual([[own]]);
        expect(await problems()).toEqual([]);
      });
    });

    test("a registration that does not open fails questions about its artifact, and a rebuild changes nothing", async () => {
      const [own, kept] = [await register({ labels: ["restricted"] }), await register({ digest: other })];
      await fixture.damage(alice, own);
      const looks = async () => {
        await expect(found()).rejects.toMatchObject({ reason: "internal" });
        expect(await found([other])).toEqual([[kept]]);
        expect(await problems()).toEqual([expect.stringMatching(/^leaf 1 does not open its record/)]);
      };
      await looks();
      expect(await rebuild()).toMatchObject({ damaged: [1] });
      await looks();
      await erase(own);
      expect(await found([digest, other])).toEqual(["erased", [kept]]);
      expect(await rebuild()).toMatchObject({ damaged: [] });
      expect(await found([digest, other])).toEqual(["erased", [kept]]);
    });

    describe("verify names", () => {
      const leaf = "WHERE leaf_index = 1";
      test.each([
        ["a row that is missing", `DELETE FROM registered_artifacts ${leaf}`, /^leaf 1 is not found by the artifact/],
        ["a key that is missing", "DELETE FROM artifact_keys", /^leaf 1 (is not found|stands for)/],
        [
          "a row of another artifact",
          "UPDATE registered_artifacts SET leaf_index = 2",
          /^leaf 2 stands for an artifact/,
        ],
        ["a row that is not relied on", `UPDATE registered_artifacts SET relied_on = 0 ${leaf}`, /^leaf 1 stands for/],
        ["a row behind the head", "UPDATE registered_artifacts SET leaf_index = 77", /^registered_artifacts leaf 77/],
      ])("%s, and a rebuild repairs it", async (_, sql, problem) => {
        const own = await register();
        await ledger.append(makeRecord(alice));
        await fixture.query(sql);
        expect(await problems()).toEqual(expect.arrayContaining([expect.stringMatching(problem)]));
        await rebuild();
        expect(await problems()).toEqual([]);
        expect(await found()).toEqual([[own]]);
      });
    });
  });
}
