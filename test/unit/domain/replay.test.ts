import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { RecordId, TenantId } from "../../../src/base/ids.ts";
import { contentAddress, utf8Text } from "../../../src/base/text-forms.ts";
import { decide } from "../../../src/domain/decision.ts";
import { compareRecorded, RecordedComparing, recordedQuery, replayDecision } from "../../../src/domain/replay.ts";
import type { EvaluationRequest } from "../../../src/domain/requests.ts";
import type { StoredRecord } from "../../../src/ledger/ports/record.ts";
import { type PolicyBundle, parseBundleContent } from "../../../src/policy/load/bundle.ts";
import type { PolicyEngine } from "../../../src/policy/model/decision.ts";
import { policyActions } from "../../../src/policy/model/schema.ts";
import { bundleContent, engineOf, type Files, openFiles } from "../policy/harness.ts";
import { createWorld, FakeEngine, type FakeLedger, identity, must } from "./world.ts";

const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 6 });
const described = fc.record(
  {
    workload: fc.record(
      { application: text, environment: text, component: text },
      { requiredKeys: ["application"], noNullPrototype: true },
    ),
    resource: fc.record({ kind: text, id: text, mime_type: text }, { requiredKeys: ["kind"], noNullPrototype: true }),
    labels: fc.array(text, { maxLength: 3 }),
    attributes: fc.dictionary(text, text, { maxKeys: 3, noNullPrototype: true }),
    purpose: text,
    content_digest: text,
    content_size_bytes: fc.nat(),
    preferred_artifact_profile: fc.constantFrom("tdf", "envelope"),
    artifact_profile: fc.constantFrom("tdf", "envelope"),
    key_reference: text,
  },
  { requiredKeys: ["workload", "resource", "labels", "attributes"], noNullPrototype: true },
);

const subject = fc.record(
  {
    type: text,
    id: text,
    properties: fc.dictionary(text, text, { maxKeys: 3, noNullPrototype: true }),
    property_values: fc.array(text, { maxLength: 3 }),
  },
  { noNullPrototype: true },
);

test("a record's question is the one that an enforcement point asked, for itself or for another subject", async () => {
  await fc.assert(
    fc.asyncProperty(described, fc.constantFrom(...policyActions), fc.option(subject), async (...given) => {
      const [{ preferred_artifact_profile: _, ...common }, operation, onBehalfOf] = given;
      const engine = new FakeEngine();
      const { ledger, dependencies } = createWorld({}, engine);
      const request = { ...common, operation, ...(onBehalfOf && { on_behalf_of: onBehalfOf }) } as EvaluationRequest;
      await decide(dependencies, identity(), { route: "evaluation", request });
      expect(recordedQuery(storedAt(ledger, 0))).toEqual(engine.queries[0]);
      expect(engine.queries[0]?.onBehalfOf).toEqual(onBehalfOf ?? undefined);
      expect(ledger.records[0]).toMatchObject({
        route: "/access/v1/evaluation",
        caller: { principal_id: "payroll-service" },
      });
    }),
  );
});

test("a record's question is the one that was decided, on every route", async () => {
  await fc.assert(
    fc.asyncProperty(described, fc.constantFrom("protect", "access", "rewrap"), async (request, operation) => {
      const {
        preferred_artifact_profile: preferred,
        artifact_profile: profile,
        key_reference: key,
        ...common
      } = request;
      const { content_size_bytes: size, ...unsized } = common;
      const engine = new FakeEngine();
      const { ledger, protection, keyAccess } = createWorld({}, engine);
      const keyOperation = { protect: "wrap", access: "unwrap", rewrap: "rewrap" } as const;
      await protection.plan(identity(), {
        ...common,
        operation,
        ...(preferred && { preferred_artifact_profile: preferred }),
      } as never);
      await protection.resolve(identity(), { ...common, operation });
      await keyAccess.plan(identity(), {
        ...unsized,
        operation: keyOperation[operation],
        ...(profile && { artifact_profile: profile }),
        ...(key && { key_reference: key }),
      } as never);
      expect(engine.queries).toHaveLength(3);
      const records = [...ledger.records.keys()].map((index) => storedAt(ledger, index));
      expect(records.map(recordedQuery)).toEqual(engine.queries);
    }),
    { numRuns: 100 },
  );
});

/** The record as a store gives it back. */
function storedAt(ledger: FakeLedger, index: number): StoredRecord {
  const { kind, recordId, tenantId, requestId, caller, route, request, outcome } = must(ledger.records[index]);
  const json = JSON.parse(JSON.stringify({ kind, caller, route, request, outcome }));
  return { ...json, record_id: recordId, tenant_id: tenantId, request_id: requestId };
}

async function decided(files: Files) {
  const engine = await engineOf(files);
  const { ledger, keyAccess } = createWorld({}, engine);
  const { decision } = await keyAccess.plan(identity(), {
    operation: "wrap",
    workload: { application: "payroll" },
    resource: { kind: "record" },
    labels: [],
    attributes: {},
    key_reference: "kms://a",
  });
  const archive = {
    find: (tenantId: TenantId, recordId: RecordId) => ledger.find(tenantId, recordId),
    policyRevision: async (revision: string) => (revision === engine.revision ? utf8Text(engine.content) : undefined),
  };
  return { ledger, archive, engine, decisionId: decision.decisionId as RecordId };
}

const tenantId = identity().caller.tenantId;

test("a bundle of another engine is named; one that no longer compiles is refused", async () => {
  const { archive, ledger, decisionId, engine } = await decided(openFiles);
  const bundle = must(parseBundleContent(utf8Text(engine.content), engine.revision));
  const replayWith = async (changes: Partial<PolicyBundle>) => {
    const content = bundleContent({ ...bundle, ...changes });
    const record = storedAt(ledger, 0);
    const outcome = { ...record.outcome, policy_revision: contentAddress(content) };
    const changed = { find: async () => ({ ...record, outcome }), policyRevision: async () => content };
    return await replayDecision({ ...archive, ...changed }, tenantId, decisionId, engine);
  };
  expect(await replayWith({ engine: "cedar 1, rules 0" })).toMatchObject({ sameEngine: false });
  const sets = { ...bundle.sets, default: { "all.cedar": "permit" } };
  expect(await replayWith({ sets })).toBe("revision_refused");
});

describe("a decision about an artifact whose registrations were not looked up", () => {
  const reading = '@id("known") forbid (principal, action, resource) unless { context has registered };';
  const readingFiles = { ...openFiles, "default/known.cedar": reading };
  const digest = `sha256:${"ab".repeat(32)}`;

  /** Decides twice, about an artifact and about none, under policies that read nothing of it. */
  async function decidedTwice(files: Files) {
    const engine = await engineOf(files);
    const { ledger, protection } = createWorld({}, engine);
    const request = { operation: "access", labels: [], attributes: {} } as const;
    const plain = { ...request, workload: { application: "payroll" }, resource: { kind: "record" } };
    const ids: RecordId[] = [];
    for (const named of [{ artifact_digest: digest }, { artifact_cid: "a cid" }, {}])
      ids.push((await protection.plan(identity(), { ...plain, ...named })).decision.decisionId as RecordId);
    const archive = {
      find: (tenantId: TenantId, recordId: RecordId) => ledger.find(tenantId, recordId),
      policyRevision: async () => utf8Text(engine.content),
      search: async () => ({
        size: ids.length,
        found: ids.map((recordId) => ({ recordId, kind: "decision", erased: false })) as never,
      }),
    };
    return { archive, engine, ids };
  }

  test("is not compared with policies that read them, and is with others", async () => {
    const { archive, engine, ids } = await decidedTwice(openFiles);
    const reads = await engineOf(readingFiles);
    const replay = (id: RecordId | undefined, current: PolicyEngine) =>
      replayDecision(archive, tenantId, must(id), current);
    for (const id of ids.slice(0, 2))
      expect(await replay(id, reads)).toMatchObject({ own: { differences: [] }, current: "not_looked_up" });
    expect(await replay(ids[0], engine)).toMatchObject({ current: { differences: [] } });
    expect(await replay(ids[2], reads)).toMatchObject({ current: { outcome: { allow: false } } });

    for (const engines of [[engine, reads] as const, [reads, engine] as const]) {
      const compared = await compareRecorded(archive, [tenantId], 0, engines, () => {});
      expect(compared).toMatchObject({
        compared: 1,
        erased: 0,
        not_askable: 0,
        not_looked_up: 2,
        ways: [{ count: 1 }],
      });
    }
    const alike = await compareRecorded(archive, [tenantId], 0, [engine, engine], () => {});
    expect(alike).toMatchObject({ compared: 3, not_looked_up: 0, ways: [] });
  });

  test("is compared if they were looked up and none was found", async () => {
    const { archive, ids } = await decidedTwice(readingFiles);
    const current = await engineOf(readingFiles);
    expect(await replayDecision(archive, tenantId, must(ids[0]), current)).toMatchObject({
      current: { differences: [] },
    });
  });
});

test("the example of a difference is its newest decision, in whatever order they are read", async () => {
  const { ledger, engine } = await decided(openFiles);
  const closed = await engineOf({ ...openFiles, "default/b.cedar": '@id("b") forbid (principal, action, resource);' });
  const record = storedAt(ledger, 0);
  const query = must(recordedQuery(record));
  for (const days of [
    ["01", "02", "03"],
    ["03", "02", "01"],
    ["02", "03", "01"],
  ]) {
    const comparing = new RecordedComparing([engine, closed]);
    for (const day of days) {
      const dated = { ...record, record_id: day as RecordId, recorded_at: `2026-01-${day}T00:00:00.000Z` };
      comparing.add(tenantId, { record: dated, query, isComplete: true });
    }
    expect(comparing.result().ways).toMatchObject([{ count: 3, example: { decision_id: "03" } }]);
  }
});
