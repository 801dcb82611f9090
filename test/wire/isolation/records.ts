/** Records: cited, repeated, searched. */
import { randomBytes } from "node:crypto";
import { v7 } from "uuid";
import { expect } from "vitest";
import { sampleCalls } from "../../../dev/requests.ts";
import type { RecordId, TenantId } from "../../../src/base/ids.ts";
import { searchFields } from "../../../src/ledger/ports/search.ts";
import { recordIn } from "../../harness/ledger.ts";
import {
  answerOf,
  bearer,
  expectAllDifferent,
  type IsolationRow,
  reasonOf,
  receiptOf,
  type Wire,
  type World,
} from "./world.ts";

const citingRoutes = ["/v1/sdk/artifact-register", "/v1/sdk/evidence"] as const;
const bodyOf = (route: string, decisionId?: string) =>
  sampleCalls(decisionId).find((call) => call.route === route)?.body;

async function ask(world: World, wire: Wire, route: string, tenant: string, decisionId?: string) {
  return answerOf(await wire.call(route, bodyOf(route, decisionId), bearer(world.token(tenant))));
}

/** Everything of an answer and its record that may not depend on which id was cited. */
function citationOf(answer: ReturnType<typeof answerOf>): unknown {
  const { caller, request_summary, warnings, registration, ingestion } = answer;
  const { receipt: _, ...said } = registration ?? ingestion;
  const record = recordIn(answer);
  const { decision_id: __, ...request } = record.request;
  const sizeBytes = receiptOf(answer).record?.length;
  return { caller, request_summary, warnings, said, request, outcome: record.outcome, sizeBytes };
}

/** Whatever another tenant has recorded, citing it is like citing what was never recorded. */
async function foreignRecordsAreUnknown(world: World, wire: Wire): Promise<void> {
  const [owner, ...others] = world.tenants() as [string, ...string[]];
  const decision = (await ask(world, wire, "/v1/sdk/protection-plan", owner)).decision.decision_id;
  const registration = receiptOf(await ask(world, wire, citingRoutes[0], owner, decision)).record_id;
  const evidence = receiptOf(await ask(world, wire, citingRoutes[1], owner, decision)).record_id;
  for (const route of citingRoutes) {
    const own = await ask(world, wire, route, owner, decision);
    expect(recordIn(own).outcome).toMatchObject({ citation: "matched" });
    for (const tenant of others) {
      const never = citationOf(await ask(world, wire, route, tenant, v7()));
      expect(never).toMatchObject({ outcome: { citation: "unknown" } });
      for (const cited of [decision, registration, evidence])
        expect(citationOf(await ask(world, wire, route, tenant, cited)), tenant).toEqual(never);
    }
  }
}

/** One key, principal and payload: a record of each tenant's own, and its own again when the call is repeated. */
async function keptAnswersAreOwn(world: World, wire: Wire): Promise<void> {
  const key = `key-${randomBytes(8).toString("hex")}`;
  for (const route of citingRoutes) {
    const tenants = world.tenants();
    const call = async (tenant: string) =>
      answerOf(await wire.call(route, bodyOf(route), { ...bearer(world.token(tenant)), "idempotency-key": key }));
    const first = await Promise.all(tenants.map(call));
    expectAllDifferent(first.map((answer) => receiptOf(answer).record_id));
    expect(first.map((answer) => recordIn(answer).tenant_id)).toEqual(tenants);
    for (const [at, tenant] of tenants.entries())
      expect(withoutCosignatures(await call(tenant))).toEqual(withoutCosignatures(first[at]));
  }
}

/** Each worker of a gateway brings trees to the witnesses by itself: the same tree, cosigned at another moment. */
function withoutCosignatures(answer: unknown): unknown {
  return JSON.parse(JSON.stringify(answer).replaceAll(/— witness\.example\/[^ ]+ [A-Za-z0-9+/=]+\\n/g, ""));
}

/** Separators that a principal and a key may contain, and a tenant id may not; keys have the route in between. */
const separators = ["|", "/", ",", ";", "\\", `:${citingRoutes[1]}:`, `${citingRoutes[1]}`];
/** Those that a tenant id may contain, too. */
const tenantSeparators = [":", ".", "-", "_"];

/** Tenant, principal and key are one text for all of these, written one after the other with a separator. */
async function scopesAreNotJoined(world: World, wire: Wire): Promise<void> {
  const [, route] = citingRoutes;
  const [base] = world.tenants() as [string];
  for (const separator of [...tenantSeparators, ...separators]) {
    const pieces = [base, "x", "y", "z"];
    const join = (from: number, to: number) => pieces.slice(from, to).join(separator);
    const scopes: [tenant: string, principal: string, key: string][] = [
      [base, "x", join(2, 4)],
      [base, "w", join(2, 4)],
      [base, join(1, 3), "z"],
    ];
    if (tenantSeparators.includes(separator)) scopes.push([join(0, 2), "y", "z"]);
    const answers = scopes.map(async ([tenant, principal_id, key]) => {
      const headers = { ...bearer(world.token(tenant, { principal_id })), "idempotency-key": key };
      return answerOf(await wire.call(route, bodyOf(route), headers));
    });
    expectAllDifferent((await Promise.all(answers)).map((answer) => receiptOf(answer).record_id));
  }
}

/** So many more, and the index of an embedded store has what was recorded first in a segment: it waits no longer. */
const furtherEvents = 64;

/** Whatever is searched for, in whatever words, a tenant finds its own records; by another's id it finds nothing. */
async function searchFindsOwn(
  world: World,
  wire: Wire,
  tenants = world.tenants() as TenantId[],
  further = 0,
): Promise<void> {
  const own = new Map<TenantId, readonly string[]>();
  // By whom an enforcement point asks for, only what enforcement points asked is found.
  type Field = Exclude<(typeof searchFields)[number], "on_behalf_of">;
  const fields = searchFields.filter((field): field is Field => field !== "on_behalf_of");
  const values = new Map<TenantId, Readonly<Record<Field, string>>>();
  for (const tenant of tenants) {
    const plan = await ask(world, wire, "/v1/sdk/protection-plan", tenant);
    const { decision } = plan;
    const { resource, labels, attributes, operation } = recordIn(plan).request;
    const [attribute] = Object.entries(attributes).map(([key, value]) => `${key}=${value}`);
    const cid = "bafkreidon73zkcrwdb5iafqtijxildoonbwnpv7dyd6ef3qdgads2jc4su";
    const route = "/v1/sdk/evidence";
    const body = { ...bodyOf(route, decision.decision_id), artifact_cid: cid };
    const record = async () => answerOf(await wire.call(route, body, bearer(world.token(tenant))));
    const event = await record();
    const others = await Promise.all(Array.from({ length: further }, record));
    const { caller, request, request_id } = recordIn(event);
    own.set(tenant, [decision.decision_id, ...[event, ...others].map((each) => receiptOf(each).record_id)]);
    values.set(tenant, {
      record_id: receiptOf(event).record_id,
      decision_id: decision.decision_id,
      artifact_digest: request.artifact_digest,
      cid,
      subject: caller.subject,
      principal: caller.principal_id,
      request_id,
      resource_id: resource.id,
      label: labels[0],
      attribute: attribute ?? "",
      operation,
      outcome: request.outcome,
      reason: decision.reasons[0],
      alert: recordIn(plan).outcome.alerts[0],
    });
  }
  await world.reading(async (archive) => {
    for (const [at, tenant] of tenants.entries()) {
      const next = tenants[(at + 1) % tenants.length] as TenantId;
      for (const field of fields) {
        const search = async (value: string) =>
          (await archive.search({ tenantId: tenant, terms: [{ field, value }], limit: 100 })).found;
        // Who made the first record of a log is in its genesis, too.
        const found = (await search(values.get(tenant)?.[field] ?? ""))
          .filter(({ kind }) => kind !== "genesis")
          .map(({ recordId }) => recordId);
        expect(found.length, field).toBeGreaterThan(0);
        expect(own.get(tenant), field).toEqual(expect.arrayContaining(found));
        if (field.endsWith("_id") && field !== "resource_id")
          expect(await search(values.get(next)?.[field] ?? ""), field).toEqual([]);
      }
      for (const recordId of own.get(next) ?? [])
        expect(await archive.find(tenant, recordId as RecordId)).toBe("unknown");
      for (const recordId of own.get(tenant) ?? [])
        expect(await archive.find(tenant, recordId as RecordId)).toMatchObject({ tenant_id: tenant });
    }
  });
}

/** One artifact that everybody registers: each has a row of its own, and what it is called is no other's. */
async function registrationsAreOwn(world: World, wire: Wire): Promise<void> {
  const tenants = world.tenants() as TenantId[];
  for (const tenant of tenants) await ask(world, wire, citingRoutes[0], tenant);
  await world.reading(async (archive) => {
    const own = (await archive.logs()).filter(({ tenantId }) => tenants.includes(tenantId));
    const indexes = await Promise.all(own.map(async (head) => (await archive.companions(head)).registrations));
    const rows = await Promise.all(indexes.map(async (index) => (await index?.within(0, 100)) ?? []));
    expect(rows.map((found) => new Set(found.map(({ leafIndex }) => leafIndex)).size)).toEqual(tenants.map(() => 1));
    expectAllDifferent(indexes.map((index) => Buffer.from(index?.key ?? "").toString("hex")));
    expectAllDifferent(rows.flat().map(({ artifact }) => Buffer.from(artifact).toString("hex")));
  });
}

/** What is known of an artifact is its tenant's alone, even if an enforcement point asks about it for another. */
async function delegationSeesOwnArtifacts(world: World, wire: Wire): Promise<void> {
  const [owner, ...others] = world.tenants() as [string, ...string[]];
  const registration = bodyOf(citingRoutes[0]) as Readonly<Record<string, unknown>>;
  answerOf(await wire.call(citingRoutes[0], registration, bearer(world.token(owner))));
  const asked = async (tenant: string, artifact_digest: unknown) => {
    const question = {
      subject: { type: "user", id: "alice" },
      action: { name: "access" },
      resource: { type: "record", id: "1", properties: { artifact_digest } },
    };
    const answer = answerOf(await wire.call("/access/v1/evaluation", question, bearer(world.token(tenant))));
    const { outcome, request } = recordIn(answer);
    return { decision: answer.decision, outcome, onBehalfOf: request.on_behalf_of };
  };
  const never = "sha256:never-registered";
  const known = await asked(owner, registration.artifact_digest);
  expect(known.outcome).not.toEqual((await asked(owner, never)).outcome);
  for (const tenant of others) {
    expect(await asked(tenant, registration.artifact_digest), tenant).toEqual(await asked(tenant, never));
  }
}

/** Erasing and holding a tenant's records is nothing to any other, and another's record cannot be named. */
async function erasuresAreOwn(world: World, wire: Wire): Promise<void> {
  const [owner, other] = world.tenants() as [TenantId, TenantId];
  const [, route] = citingRoutes;
  const event = async (tenant: TenantId) =>
    wire.call(route, bodyOf(route), { ...bearer(world.token(tenant)), "idempotency-key": "erased" });
  const decision = (await ask(world, wire, "/v1/sdk/protection-plan", owner)).decision.decision_id as RecordId;
  const erased = receiptOf(answerOf(await event(owner))).record_id as RecordId;
  const kept = answerOf(await event(other));
  const never = citationOf(await ask(world, wire, route, other, v7()));
  const holds = (tenant: TenantId) => world.reading((archive) => archive.holds(tenant));
  await world.keeping(async (administration) => {
    expect(await administration.placeHold({ tenantId: other, recordId: erased, reason: "held" })).toBe("unknown");
    await administration.placeHold({ tenantId: other, recordId: undefined, reason: "held" });
    expect(await holds(owner)).toEqual([]);
    const refused = [{ recordId: erased, why: "unknown" }];
    expect(await administration.erase(other, [erased], { reason: "request 7", operator: "olga" })).toEqual({ refused });
    const result = await administration.erase(owner, [erased, decision], { reason: "request 7", operator: "olga" });
    expect(result).toMatchObject({ erased: [{ recordId: erased }, { recordId: decision }] });
    expect(
      await administration.releaseHold(owner, undefined, { reason: "request 6", operator: "olga" }),
    ).toBeUndefined();
    expect(await holds(other)).toHaveLength(1);
  });
  expect(reasonOf(await event(owner))).toBe("idempotency_conflict");
  expect(recordIn(answerOf(await event(other)))).toEqual(recordIn(kept));
  for (const cited of [erased, decision])
    expect(citationOf(await ask(world, wire, route, other, cited))).toEqual(never);
}

export const recordRows: readonly IsolationRow[] = [
  { thing: "a record that is cited", tables: ["entries", "openings"], check: foreignRecordsAreUnknown },
  { thing: "a kept answer", tables: ["kept_answers"], check: keptAnswersAreOwn },
  { thing: "the scope of an idempotency key", tables: ["kept_answers"], check: scopesAreNotJoined },
  { thing: "an erasure, and a legal hold", tables: ["erasures", "legal_holds"], check: erasuresAreOwn },
  {
    thing: "a registration",
    tables: ["artifact_keys", "registered_artifacts"],
    check: registrationsAreOwn,
  },
  {
    thing: "an artifact of a delegated question",
    tables: ["artifact_keys", "registered_artifacts"],
    check: delegationSeesOwnArtifacts,
  },
  {
    thing: "a record that is searched",
    tables: ["search_keys"],
    check: (world, wire) => searchFindsOwn(world, wire),
  },
  {
    thing: "a record that is searched in a segment of the index",
    tables: ["search_segments"],
    check: (world, wire) => searchFindsOwn(world, wire, world.tenants().slice(0, 2) as TenantId[], furtherEvents),
  },
];
