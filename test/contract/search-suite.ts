/** What search promises, for any store: it finds exactly what looking at every record would find. */
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import type { TenantId } from "../../src/base/ids.ts";
import type { Ledger, PublishedLogs } from "../../src/ledger/ports/ledger.ts";
import type { NewRecord, StoredRecord } from "../../src/ledger/ports/record.ts";
import {
  type FoundRecord,
  type SearchField,
  type SearchPage,
  type SearchQuery,
  type SearchTerm,
  searchFields,
} from "../../src/ledger/ports/search.ts";
import { logNameOf } from "../../src/ledger/tlog/log-name.ts";
import { removeFromSegments } from "../../src/stores/sql/search-segments.ts";
import { draws } from "../harness/draws.ts";
import { recordKit, seededRandom, tenant } from "./ledger-records.ts";
import { indexRows } from "./settled-search.ts";
import type { StoreFixture } from "./store-fixture.ts";

type Search = (query: SearchQuery) => Promise<SearchPage>;

const alice = tenant("alice");
const subjects = ["s-1", "s-2", "é \u{1F600}"];
const digests = ["sha256:a", "sha256:b", "x:1"];
const cids = ["bafy-a", "bafy-b"];
const resources = ["cust-1", "cust-2"];
const labels = ["pii", "é"];
const people = [
  { type: "user", id: "alice" },
  { type: "user", id: "b/ob" },
];
const cited = ["01890000-0000-7000-8000-000000000001", "not-a-uuid"];

/** What one record is made of; `cites` is an earlier record by its position, where there is one. */
const drawn = fc.record({
  kind: fc.constantFrom("decision" as const, "registration" as const, "evidence" as const),
  subject: fc.constantFrom(...subjects),
  principal: fc.constantFrom("p-1", "p-2"),
  digest: fc.option(fc.constantFrom(...digests), { nil: undefined }),
  cid: fc.option(fc.constantFrom(...cids), { nil: undefined }),
  root: fc.option(fc.constantFrom(...cids), { nil: undefined }),
  derived: fc.option(fc.constantFrom(...cids), { nil: undefined }),
  cites: fc.option(fc.oneof(fc.constantFrom(...cited), fc.nat(20)), { nil: undefined }),
  requestId: fc.constantFrom("q-1", "q-2"),
  resource: fc.option(fc.constantFrom(...resources), { nil: undefined }),
  labels: fc.array(fc.constantFrom(...labels), { maxLength: 3 }),
  onBehalfOf: fc.option(fc.constantFrom(...people), { nil: undefined }),
  attributes: fc.dictionary(fc.constantFrom("person", "place"), fc.constantFrom("a", "b=c"), { maxKeys: 2 }),
  operation: fc.constantFrom("protect", "access"),
  said: fc.option(fc.constantFrom("Completed", "failed: no key", "completed, almost", "allow"), { nil: undefined }),
  allowed: fc.boolean(),
  reasons: fc.uniqueArray(fc.constantFrom("platform/a", "tenant/b")),
  alerts: fc.option(fc.uniqueArray(fc.constantFrom("break-glass", "after-hours")), { nil: undefined }),
  stepMs: fc.integer({ min: -1, max: 2 }),
});

const askedValues = {
  subject: [...subjects, "s-3"],
  principal: ["p-1", "p-2", "s-1"],
  artifact_digest: digests,
  cid: [...cids, "sha256:a"],
  resource_id: [...resources, "pii"],
  label: labels,
  on_behalf_of: ["user/alice", "alice", "user"],
  attribute: ["person=a", "person=b=c", "a"],
  outcome: ["allow", "deny", "unknown", "accepted", "refused", "completed", "failed"],
  reason: ["platform/a", "tenant/b"],
  alert: ["break-glass", "after-hours"],
  operation: ["protect", "access", "wrap"],
  decision_id: cited,
  record_id: cited,
} satisfies Partial<Record<SearchField, readonly string[]>>;

/**
 * What one query is made of: what some of the fields of an earlier record hold, by its position, and a value that any or
 * no record may have.
 */
const asked = fc.record({
  of: fc.nat(20),
  fields: fc.subarray([...searchFields]),
  others: fc.array(
    fc.oneof(
      ...Object.entries(askedValues).map(([field, values]) =>
        fc.record({ field: fc.constant(field as SearchField), value: fc.constantFrom(...values) }),
      ),
    ),
    { maxLength: 1 },
  ),
  fromMs: fc.option(fc.integer({ min: -2, max: 20 }), { nil: undefined, freq: 1 }),
  toMs: fc.option(fc.integer({ min: -2, max: 20 }), { nil: undefined, freq: 1 }),
  limit: fc.integer({ min: 1, max: 4 }),
});

/** Checks one store. */
export function searchSuite(name: string, makeFixture: () => Promise<StoreFixture>): void {
  describe(`search on ${name}`, () => {
    const { clock, random, makeRecord } = recordKit("search");
    let fixture: StoreFixture;
    let ledger: Ledger & PublishedLogs;

    beforeEach(async () => {
      fixture = await makeFixture();
      ledger = await fixture.open({ clock, random });
    });

    /** Search as the service serves it. */
    const served = (query: SearchQuery): Promise<SearchPage> => ledger.search(query);
    const withArchive = <Result>(look: (search: Search) => Promise<Result>): Promise<Result> =>
      fixture.reading((archive) => look((query) => archive.search(query)));
    const loseKeys = (tenantId: string) => fixture.query(`DELETE FROM search_keys WHERE tenant_id = '${tenantId}'`);
    const termsOf = async (tenantId: string, leafIndex?: number) => {
      const rows = await indexRows(fixture.query, tenantId);
      return rows.filter((row) => leafIndex === undefined || row.leafIndex === leafIndex);
    };
    const countTerms = async (tenantId: string, leafIndex?: number) => (await termsOf(tenantId, leafIndex)).length;
    const storedTerms = async (tenantId: string) => Buffer.concat((await termsOf(tenantId)).map(({ term }) => term));
    /** Removes what the indexes have of a leaf, as an erasure does. */
    const removeTerms = async (tenantId: TenantId, leafIndex: number) => {
      await using database = await fixture.database();
      await database.transact((transaction) => removeFromSegments(transaction, tenantId, [leafIndex]));
    };
    const rebuild = (tenantId: TenantId, pause = async () => {}) =>
      fixture.rebuild(tenantId, { random: seededRandom("indexer"), pause });
    /** Every record of a log, in its order; undefined where one was erased. */
    const allRecords = async (tenantId: TenantId) => {
      const rows = await fixture.rows(tenantId);
      return Promise.all(
        rows.map(async ({ leafIndex, recordId, leaf }): Promise<Known> => {
          const record = await ledger.find(tenantId, recordId as StoredRecord["record_id"]);
          const { kind, recorded_at: recordedAt, policy_revision: policyRevision } = JSON.parse(leaf);
          if (record === "unknown") throw new Error("A record is missing.");
          const isErased = record === "erased";
          const found = { leafIndex, recordId, kind, recordedAt, erased: isErased, policyRevision } as FoundRecord;
          return { found, record: isErased ? undefined : record };
        }),
      );
    };
    const append = (tenantId: TenantId, changes: Partial<NewRecord> = {}) =>
      ledger.append(makeRecord(tenantId, changes));

    test("search is a filter over all records: paged or not, with the index, after a rebuild, and without", async () => {
      let run = 0;
      const property = fc.asyncProperty(
        fc.array(drawn, { minLength: 1, maxLength: 20 }),
        fc.array(asked, { minLength: 6, maxLength: 6 }),
        fc.nat(20),
        async (records, queries, erased) => {
          const tenantId = tenant(`run-${run++}`);
          const startMs = clock.nowMs;
          const ids: string[] = [];
          for (const each of records) {
            clock.nowMs += each.stepMs;
            const record = recordOf(makeRecord(tenantId), each, ids);
            ids.push(record.recordId);
            await ledger.append(record);
          }
          if (ids[erased] !== undefined) await fixture.deleteOpening(tenantId, ids[erased]);
          const known = await allRecords(tenantId);
          const searches = queries.map((query): SearchQuery => queryOf(query, tenantId, startMs, known));
          const expected = searches.map((query) => known.filter(matches(query)).map(({ found }) => found));
          const check = async (search: Search) => {
            for (const [position, query] of searches.entries()) {
              expect(await readAll(search, query)).toEqual(expected[position]);
              expect(await readAll(search, { ...query, limit: 1_000 })).toEqual(expected[position]);
              expect(await readAll(search, { ...query, newest: true })).toEqual(expected[position]?.toReversed());
              const { counted, size } = await search({ ...query, countBy: "principal" });
              const mine = known.filter(matches(query));
              expect([counted?.records, size]).toEqual([mine.length, known.length]);
              for (const { value, records } of counted?.values ?? [])
                expect(mine.filter(({ record }) => record?.caller.principal_id === value)).toHaveLength(records);
            }
          };
          await check(served);
          await rebuild(tenantId);
          await check(served);
          await withArchive(check);
          await loseKeys(tenantId);
          await check(served);
        },
      );
      await fc.assert(property, { numRuns: draws(8, 20) });
    }, 120_000);

    test("a missing log has no tenant, and its tenant has no results", async () => {
      const query = { tenantId: tenant("carol"), terms: [], limit: 1 };
      expect(await withArchive((search) => search(query))).toEqual({ found: [], size: 0 });
      expect(await ledger.search(query)).toEqual({ found: [], size: 0 });
      for (const name of ["0".repeat(32), "nothing"]) expect(await ledger.tenantOf(name)).toBeUndefined();
      const { log } = await append(alice);
      expect(await ledger.tenantOf(logNameOf(log))).toBe("alice");
    });

    test("an erased record is found by its id and its time only", async () => {
      const { recordId, leafIndex } = await append(alice, { kind: "evidence", request: { artifact_digest: "x:1" } });
      const term = { field: "artifact_digest" as const, value: "x:1" };
      const ask = async (terms: readonly SearchTerm[]) => (await served({ tenantId: alice, terms, limit: 9 })).found;
      expect(await ask([term])).toMatchObject([{ recordId, leafIndex, erased: false }]);
      await fixture.settle();
      await fixture.deleteOpening("alice", recordId);
      // Also before its rows are gone.
      expect(await ask([term])).toEqual([]);
      expect(await countTerms("alice", leafIndex)).toBeGreaterThan(0);
      await removeTerms(alice, leafIndex);
      expect(await countTerms("alice", leafIndex)).toBe(0);
      expect(await ask([term])).toEqual([]);
      const byId = { field: "record_id" as const, value: recordId };
      expect(await ask([byId])).toMatchObject([{ recordId, leafIndex, kind: "evidence", erased: true }]);
      expect(await ask([byId, term])).toEqual([]);
      expect(await ask([])).toHaveLength(2);
    });

    test("a summary agrees with its record, and an erased record has none", async () => {
      const request = {
        operation: "access",
        workload: { application: "payroll" },
        resource: { kind: "customer", id: "cust-1" },
        purpose: "audit",
        labels: ["pii"],
        artifact_digest: "sha256:a",
      };
      const outcome = { allow: false, reasons: ["tenant/b"], alerts: ["break-glass"] };
      const denied = await append(alice, { request, outcome });
      const event = await append(alice, {
        kind: "evidence",
        request: { event_type: "access", outcome: "partial", decision_id: denied.recordId },
        outcome: { citation: "denied" },
      });
      const erased = await append(alice);
      await fixture.deleteOpening("alice", erased.recordId);
      const { found } = await served({ tenantId: alice, terms: [], limit: 3, newest: true, summary: true });
      const caller = { principal: "principal-1", subject: "subject-1" };
      expect(found.map(({ recordId, summary }) => [recordId, summary])).toEqual([
        [erased.recordId, undefined],
        [
          event.recordId,
          {
            ...caller,
            operation: "access",
            outcome: "partial",
            unknown_outcome: true,
            citation: "denied",
            decision_id: denied.recordId,
          },
        ],
        [
          denied.recordId,
          {
            ...caller,
            application: "payroll",
            operation: "access",
            resource: { kind: "customer", id: "cust-1" },
            purpose: "audit",
            labels: ["pii"],
            artifact_digest: "sha256:a",
            outcome: "denied",
            reasons: ["tenant/b"],
            alerts: ["break-glass"],
            decision_id: denied.recordId,
          },
        ],
      ]);
    });

    test("an allowed decision shows its evidence, from the index and from waiting leaves", async () => {
      const told = { allow: true, guidance: { evidence_expected: [] } };
      const decided = await Promise.all(
        [{}, {}, {}, {}, { outcome: told }, { route: "/access/v1/evaluation" }].map((changes) =>
          append(alice, changes),
        ),
      );
      const [done, failed, announced, missing] = decided.map(({ recordId }) => recordId);
      const cite = (decision_id: string | undefined, word?: string, citation = "matched") =>
        append(alice, { kind: "evidence", request: { decision_id, outcome: word }, outcome: { citation } });
      // Its policy expects none, and what was registered changes nothing of that.
      const request = { decision_id: decided[4]?.recordId };
      await append(alice, { kind: "registration", request, outcome: { accepted: true, citation: "matched" } });
      await cite(failed, "failed: no key");
      await cite(announced, "releasing");
      await cite(missing, "completed", "expired");
      const fill = (count: number) =>
        Promise.all(Array.from({ length: count }, () => append(alice, { kind: "registration" })));
      await fill(300);
      await cite(done, "completed");
      const ask = async (newest: boolean) => {
        const query = { tenantId: alice, terms: [{ field: "outcome" as const, value: "allow" }], limit: 9 };
        const { found } = await served({ ...query, newest, summary: true });
        return Object.fromEntries(found.map(({ recordId, summary }) => [recordId, summary?.evidence]));
      };
      const codes = ["evidenced", "failed", "outcome_unknown", "missing", "not_expected", "not_expected"];
      const expected = Object.fromEntries(decided.map(({ recordId }, at) => [recordId, codes[at]]));
      expect(await ask(false)).toEqual(expected);
      await fixture.settle();
      expect(await ask(true)).toEqual(expected);
      await loseKeys("alice");
      expect(await ask(true)).toEqual(expected);
    });

    test("a record is found by a unique prefix of its id", async () => {
      const { recordId } = await append(alice);
      clock.nowMs += 3_600_000;
      const [one, two] = [await append(alice), await append(alice)];
      const ask = (field: SearchField, value: string) =>
        served({ tenantId: alice, terms: [{ field, value }], limit: 9 });
      for (const field of ["record_id", "decision_id"] as const) {
        expect((await ask(field, recordId.slice(0, 20))).found[0]).toMatchObject({ recordId });
        expect((await ask(field, two.recordId.slice(0, 30))).found).toMatchObject([{ recordId: two.recordId }]);
        const several = one.recordId.slice(0, 8);
        expect(await ask(field, several)).toMatchObject({ found: [], ambiguous: several });
        expect((await ask(field, "ffffffff-ffff")).found).toEqual([]);
      }
    });

    test("records are counted by reason, resource, application and day", async () => {
      const request = { workload: { application: "payroll" }, resource: { kind: "customer", id: "cust-1" } };
      await append(alice, { request, outcome: { allow: true, reasons: ["a", "b"] } });
      await append(alice, { request, outcome: { allow: true, reasons: ["b"] } });
      const { recordId } = await append(alice);
      await fixture.deleteOpening("alice", recordId);
      const count = async (countBy: NonNullable<SearchQuery["countBy"]>) =>
        (await served({ tenantId: alice, terms: [], limit: 1, countBy })).counted;
      expect(await count("reason")).toEqual({
        records: 4,
        values: [
          { value: "b", records: 2 },
          { value: "a", records: 1 },
        ],
      });
      expect(await count("resource")).toEqual({ records: 4, values: [{ value: "cust-1", records: 2 }] });
      expect(await count("application")).toEqual({ records: 4, values: [{ value: "payroll", records: 2 }] });
      const day = new Date(clock.nowMs).toISOString().slice(0, 10);
      expect(await count("day")).toEqual({ records: 4, values: [{ value: day, records: 4 }] });
    });

    test("a record that was changed behind the ledger is not shown as found", async () => {
      const { recordId } = await append(alice, { request: { artifact_digest: "x:1" } });
      await fixture.damage("alice", recordId);
      const query = { tenantId: alice, terms: [{ field: "artifact_digest" as const, value: "x:1" }], limit: 1 };
      await expect(served(query)).rejects.toMatchObject({ reason: "internal" });
    });

    test("the index at rest reveals no recorded value, and no equality between tenants", async () => {
      const request = { artifact_digest: "sha256:very-secret-value" };
      await append(alice, { kind: "evidence", request });
      await append(tenant("bob"), { kind: "evidence", request });
      await fixture.settle();
      const [own, other] = [await storedTerms("alice"), await storedTerms("bob")];
      expect(own.length).toBeGreaterThanOrEqual(3 * 16);
      // A record is found by its id without the index, and so a decision.
      const decision = await append(alice);
      await fixture.settle();
      expect(await countTerms("alice", decision.leafIndex)).toBe(4);
      for (const secret of ["very-secret-value", "subject-1", "principal-1", "request-1", "pii"])
        expect(Buffer.from(own).includes(secret)).toBe(false);
      const blocks = (bytes: Uint8Array) =>
        Array.from({ length: bytes.length / 16 }, (_, i) => Buffer.from(bytes.subarray(i * 16, i * 16 + 16)));
      for (const term of blocks(own)) expect(blocks(other).some((foreign) => foreign.equals(term))).toBe(false);
    });

    describe("rebuilding the index", () => {
      const bySubject = { tenantId: alice, terms: [{ field: "subject" as const, value: "subject-1" }], limit: 1_000 };

      test("changes nothing if nothing is wrong, and reports what it read", async () => {
        const erased = await append(alice);
        await append(alice);
        const damaged = await append(alice);
        await fixture.deleteOpening("alice", erased.recordId);
        await fixture.damage("alice", damaged.recordId);
        const seen = { leaves: 4, erased: 1, damaged: [damaged.leafIndex] };
        expect(await rebuild(alice)).toEqual(seen);
        const rows = await countTerms("alice");
        expect(await countTerms("alice", damaged.leafIndex)).toBe(0);
        const byItself = [{ field: "decision_id" as const, value: damaged.recordId }];
        expect(await served({ tenantId: alice, terms: byItself, limit: 1 })).toMatchObject({ found: [] });
        expect(await rebuild(alice)).toEqual(seen);
        expect(await countTerms("alice")).toBe(rows);
      });

      test("runs beside appends and erasures, without loss", async () => {
        const { recordId, leafIndex } = await append(alice);
        await Promise.all(Array.from({ length: 300 }, () => append(alice)));
        let pauses = 0;
        await rebuild(alice, async () => {
          pauses += 1;
          await append(alice);
          if (pauses !== 2) return;
          // Its leaf has been indexed again already.
          await fixture.deleteOpening("alice", recordId);
          await removeTerms(alice, leafIndex);
        });
        expect(pauses).toBeGreaterThanOrEqual(3);
        expect(await countTerms("alice", leafIndex)).toBe(0);
        const known = await allRecords(alice);
        expect(known).toHaveLength(302 + pauses);
        expect(await readAll(served, bySubject)).toEqual(known.filter(matches(bySubject)).map(({ found }) => found));
      });

      test("interrupted at any step, the index serves, and the next rebuild completes it", async () => {
        await Promise.all(Array.from({ length: 300 }, () => append(alice)));
        await fixture.settle();
        const rows = await countTerms("alice");
        for (const last of [1, 2, 3]) {
          let pauses = 0;
          const broken = rebuild(alice, async () => {
            if (++pauses === last) throw new Error("broken off");
          });
          await expect(broken).rejects.toThrow("broken off");
          expect(await readAll(served, bySubject)).toHaveLength(301);
          await append(alice);
          expect(await readAll(served, bySubject)).toHaveLength(302);
          await rebuild(alice);
          expect(await countTerms("alice")).toBeLessThan(2 * rows);
          expect(await readAll(served, bySubject)).toHaveLength(302);
          const newest = (await fixture.rows("alice")).at(-1);
          await fixture.deleteOpening("alice", newest?.recordId ?? "");
          await removeTerms(alice, newest?.leafIndex ?? -1);
          expect(await readAll(served, bySubject)).toHaveLength(301);
          await rebuild(alice);
          expect(await countTerms("alice")).toBe(rows);
        }
      });

      test("may run beside another", async () => {
        await Promise.all(Array.from({ length: 100 }, () => append(alice)));
        await rebuild(alice, () => rebuild(alice).then(() => {}));
        expect(await readAll(served, bySubject)).toHaveLength(101);
        expect(await fixture.problems(clock.now())).toEqual([]);
      });

      test("without a log has nothing to build", async () => {
        await expect(rebuild(tenant("carol"))).rejects.toThrow("tenant carol has no log");
      });
    });

    test("a long log is searched in bounded steps, with an index and without", async () => {
      const rare = { field: "artifact_digest" as const, value: "sha256:rare" };
      const request = (position: number) => ({
        artifact_digest: position % 1_400 === 3 ? rare.value : "sha256:common",
      });
      for (let from = 0; from < 4_300; from += 500) {
        const positions = Array.from({ length: Math.min(500, 4_300 - from) }, (_, position) => from + position);
        await Promise.all(positions.map((at) => append(alice, { kind: "evidence", request: request(at) })));
      }
      const query = { tenantId: alice, terms: [rare, { field: "subject" as const, value: "subject-1" }], limit: 1_000 };
      const expected = [4, 1_404, 2_804, 4_204];
      const indices = async () => (await readAll(served, query)).map(({ leafIndex }) => leafIndex);
      expect(await served(query)).toMatchObject({ found: expected.map((leafIndex) => ({ leafIndex })) });
      await loseKeys("alice");
      // Not all of the log is looked at for one page.
      expect((await served(query)).next).toBeDefined();
      expect(await indices()).toEqual(expected);
      await rebuild(alice);
      expect((await served(query)).next).toBeUndefined();
      expect(await indices()).toEqual(expected);
    }, 60_000);
  });
}

interface Known {
  readonly found: FoundRecord;
  /** Undefined where it was erased. */
  readonly record: StoredRecord | undefined;
}

type Drawn = typeof drawn extends fc.Arbitrary<infer Value> ? Value : never;
type Asked = typeof asked extends fc.Arbitrary<infer Value> ? Value : never;

function recordOf(plain: NewRecord, each: Drawn, ids: readonly string[]): NewRecord {
  const cites = typeof each.cites === "number" ? ids[each.cites] : each.cites;
  return {
    ...plain,
    kind: each.kind,
    caller: { ...plain.caller, subject: each.subject, principal_id: each.principal as never },
    requestId: each.requestId as never,
    request: {
      operation: each.operation,
      resource: { kind: "customer", id: each.resource },
      labels: each.labels,
      on_behalf_of: each.onBehalfOf,
      attributes: each.attributes,
      outcome: each.kind === "evidence" ? each.said : undefined,
      artifact_digest: each.digest,
      artifact_cid: each.cid,
      artifact_merkle_root_cid: each.root,
      decision_id: each.kind === "decision" ? undefined : cites,
    },
    outcome: {
      artifact_cid: each.derived,
      ...(each.kind === "decision" && { allow: each.allowed, reasons: each.reasons, alerts: each.alerts }),
      ...(each.kind === "registration" && { accepted: each.allowed }),
    },
  };
}

function queryOf(
  { of, fields, others, fromMs, toMs, limit }: Asked,
  tenantId: TenantId,
  startMs: number,
  known: readonly Known[],
) {
  const model = known[of % known.length];
  const terms = fields.flatMap((field) => {
    const [value] = model === undefined ? [] : valuesOf(model, field);
    return value === undefined ? [] : [{ field, value }];
  });
  return {
    tenantId,
    limit,
    terms: [...terms, ...others],
    ...(fromMs !== undefined && { fromMs: startMs + fromMs }),
    ...(toMs !== undefined && { toMs: startMs + toMs }),
  };
}

/** Whether a query finds a record, said as simply as can be. */
function matches({ terms, fromMs = -Infinity, toMs = Infinity }: SearchQuery) {
  return (known: Known): boolean => {
    const atMs = Date.parse(known.found.recordedAt);
    return atMs >= fromMs && atMs < toMs && terms.every(({ field, value }) => valuesOf(known, field).includes(value));
  };
}

function valuesOf({ found, record }: Known, field: SearchField): readonly string[] {
  if (field === "record_id") return [found.recordId];
  if (record === undefined) return [];
  const { kind, caller, request, outcome, request_id } = record;
  const about = request as {
    resource?: { id?: string };
    labels?: string[];
    attributes?: Record<string, string>;
    on_behalf_of?: { type: string; id: string };
  };
  const { on_behalf_of: subject } = about;
  const became: Readonly<Record<string, unknown>> = {
    decision: outcome.allow === true ? "allow" : "deny",
    registration: outcome.accepted === true ? "accepted" : "refused",
    evidence: { Completed: "completed", "failed: no key": "failed" }[String(request.outcome)] ?? unknownIfSaid(request),
  };
  const values: Record<Exclude<SearchField, "record_id">, readonly unknown[]> = {
    subject: [caller.subject],
    principal: [caller.principal_id],
    artifact_digest: [request.artifact_digest],
    decision_id: [kind === "decision" ? found.recordId : request.decision_id],
    request_id: [request_id],
    resource_id: [about.resource?.id],
    label: about.labels ?? [],
    attribute: Object.entries(about.attributes ?? {}).map(([key, value]) => `${key}=${value}`),
    on_behalf_of: subject === undefined ? [] : [`${subject.type}/${subject.id}`],
    reason: kind === "decision" ? (outcome.reasons as string[]) : [],
    alert: kind === "decision" ? ((outcome.alerts as string[] | undefined) ?? []) : [],
    operation: [request.operation],
    outcome: [became[kind]],
    cid: [request.artifact_cid, request.artifact_merkle_root_cid, outcome.artifact_cid],
  };
  return values[field].filter((value): value is string => typeof value === "string");
}

/** All pages, one after the other. */
async function readAll(search: Search, query: SearchQuery): Promise<readonly FoundRecord[]> {
  const found: FoundRecord[] = [];
  let next: number | undefined;
  do {
    const page = await search(next === undefined ? query : { ...query, after: next });
    expect(page.found.length).toBeLessThanOrEqual(query.limit);
    const isOnward = (later: number, earlier: number) => (query.newest === true ? later < earlier : later > earlier);
    if (next !== undefined && page.next !== undefined) expect(isOnward(page.next, next)).toBe(true);
    found.push(...page.found);
    next = page.next;
  } while (next !== undefined);
  return found;
}

function unknownIfSaid({ outcome }: StoredRecord["request"]): string | undefined {
  return outcome === undefined ? undefined : "unknown";
}
