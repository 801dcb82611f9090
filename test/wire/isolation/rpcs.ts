/** Every RPC: what it answers to one tenant is what it answers to any other, but for what is the tenant's own. */
import { readFileSync } from "node:fs";
import { fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect } from "vitest";
import { sampleCalls } from "../../../dev/requests.ts";
import { BulkStreamService } from "../../../gen/platform/bulk/v1/streams_pb.ts";
import { ArtifactProfile, EvidenceEventType, ProtectionOperation } from "../../../gen/platform/sdk/v1/common_pb.ts";
import { policyActions } from "../../../src/policy/model/schema.ts";
import { recordIn } from "../../harness/ledger.ts";
import { opensOwnSessions } from "./sessions.ts";
import { answerOf, bearer, expectAllDifferent, reasonOf, receiptOf, type Wire, type World } from "./world.ts";

type Check = (world: World, wire: Wire) => Promise<void>;

const image = new URL("../../../gen/image.binpb", import.meta.url);

/** Full names of all methods of the service's own packages, as its `.proto` files have them. */
export function declaredRpcs(): readonly string[] {
  const { file } = fromBinary(FileDescriptorSetSchema, readFileSync(image));
  return file
    .filter((each) => each.package.startsWith("platform."))
    .flatMap((each) => each.service.map((service) => ({ name: `${each.package}.${service.name}`, service })))
    .flatMap(({ name, service }) => service.method.map((method) => `${name}/${method.name}`));
}

const searched = { subject: { type: "user", id: "alice" }, resource: { type: "record", id: "one" } };
const asked = { ...searched, action: { name: "access" } };
const many = { ...searched, evaluations: [{ action: { name: "access" } }, { action: { name: "protect" } }] };

const candidates = [{ id: "alice" }, { id: "bob" }];
const searchedSubjects = { ...asked, subject: { type: "user" }, context: { candidates } };
const searchedResources = { ...asked, resource: { type: "record" }, context: { candidates } };

/** By full name of the method. */
export const rpcChecks: Readonly<Record<string, Check>> = {
  "platform.sdk.v1.DiscoveryService/GetCapabilities": readsOwn("/v1/sdk/capabilities"),
  "platform.sdk.v1.DiscoveryService/WhoAmI": readsOwn("/v1/sdk/whoami"),
  "platform.sdk.v1.DiscoveryService/GetBootstrap": readsOwn("/v1/sdk/bootstrap"),
  "platform.sdk.v1.ProtectionService/PlanProtection": recordsOwn("/v1/sdk/protection-plan"),
  "platform.sdk.v1.ProtectionService/ResolvePolicy": recordsOwn("/v1/sdk/policy-resolve"),
  "platform.sdk.v1.ProtectionService/PlanKeyAccess": recordsOwn("/v1/sdk/key-access-plan"),
  "platform.sdk.v1.RegistrationService/RegisterArtifact": recordsOwn("/v1/sdk/artifact-register"),
  "platform.sdk.v1.EvidenceService/RecordEvidence": recordsOwn("/v1/sdk/evidence"),
  "platform.sdk.v1.SessionService/CreateSession": opensOwnSessions,
  "platform.authzen.v1.AuthorizationService/Evaluate": evaluatesOwn("evaluation", asked, 1),
  "platform.authzen.v1.AuthorizationService/EvaluateMany": evaluatesOwn("evaluations", many, many.evaluations.length),
  "platform.authzen.v1.AuthorizationService/SearchSubjects": evaluatesOwn("search/subject", searchedSubjects, 2),
  "platform.authzen.v1.AuthorizationService/SearchResources": evaluatesOwn("search/resource", searchedResources, 2),
  "platform.authzen.v1.AuthorizationService/SearchActions": evaluatesOwn(
    "search/action",
    searched,
    policyActions.length,
  ),
  "platform.bulk.v1.BulkDecisionService/PlanProtections": decidesManyOwn("protection-plans", "protection-plan"),
  "platform.bulk.v1.BulkDecisionService/ResolvePolicies": decidesManyOwn("policy-resolutions", "policy-resolve"),
  "platform.bulk.v1.BulkDecisionService/PlanKeyAccesses": decidesManyOwn("key-access-plans", "key-access-plan"),
  "platform.bulk.v1.BulkRecordService/RecordEvents": recordsManyOwn("evidence", "evidence", "event"),
  "platform.bulk.v1.BulkRecordService/RegisterArtifacts": recordsManyOwn(
    "artifact-registrations",
    "artifact-register",
    "registration",
  ),
  "platform.bulk.v1.BulkStreamService/StreamEvents": streamsOwn("streamEvents"),
  "platform.bulk.v1.BulkStreamService/StreamRegistrations": streamsOwn("streamRegistrations"),
};

const bodyOf = (route: string) => sampleCalls().find((call) => call.route === route)?.body;

function readsOwn(route: string): Check {
  return async (world, wire) => {
    const tenants = world.tenants();
    expectAlike(tenants, await callAll(world, wire, route, tenants));
    await expectForeignHeaderRefused(world, wire, route, tenants);
  };
}

/** Each tenant's first record stands behind the genesis of a log of its own, whatever the others do meanwhile. */
function recordsOwn(route: string): Check {
  return async (world, wire) => {
    const tenants = world.tenants();
    const answers = await callAll(world, wire, route, tenants);
    expectAlike(tenants, answers);
    expectAllDifferent(answers.map((answer) => receiptOf(answer).log_origin));
    for (const [at, answer] of answers.entries()) {
      expect(receiptOf(answer).leaf_index).toBe(1);
      expect(recordIn(answer)).toMatchObject({ tenant_id: tenants[at], log: receiptOf(answer).log_origin });
    }
    await expectForeignHeaderRefused(world, wire, route, tenants);
    for (const answer of await callAll(world, wire, route, tenants)) expect(receiptOf(answer).leaf_index).toBe(2);
  };
}

/**
 * What an enforcement point asks for a principal of its tenant is answered alike, and recorded in its tenant's log.
 *
 * @param count decisions that one call makes
 */
function evaluatesOwn(path: string, body: object, count: number): Check {
  return async (world, wire) => {
    const tenants = world.tenants();
    const route = `/access/v1/${path}`;
    const isOwn = (name: string) => name === "decision_id" || name === "receipt";
    const answers = await callAll(world, wire, route, tenants, body);
    const texts = answers.map((answer) => JSON.stringify(answer, (name, value) => (isOwn(name) ? undefined : value)));
    expect(new Set(texts).size).toBe(1);
    await expectForeignHeaderRefused(world, wire, route, tenants, body);
    const next = await callAll(world, wire, "/access/v1/evaluation", tenants, asked);
    expectAllDifferent(next.map(({ context }) => receiptOf({ context }).log_origin));
    for (const [at, answer] of next.entries()) {
      expect(receiptOf(answer).leaf_index).toBe(count + 1);
      expect(recordIn(answer)).toMatchObject({ tenant_id: tenants[at], request: { on_behalf_of: { id: "alice" } } });
    }
  };
}

function decidesManyOwn(bulk: string, single: string): Check {
  return (world, wire) => {
    const item = bodyOf(`/v1/sdk/${single}`);
    return expectManyOwn(world, wire, `/v1/bulk/${bulk}`, { items: [item, item] }, 3);
  };
}

/** The keys are the same in all tenants, and each sends its own items once more. */
function recordsManyOwn(bulk: string, single: string, member: string): Check {
  return (world, wire) => {
    const item = { [member]: bodyOf(`/v1/sdk/${single}`) };
    const items = ["first", "second"].map((idempotency_key) => ({ idempotency_key, ...item }));
    return expectManyOwn(world, wire, `/v1/bulk/${bulk}`, { items }, 1);
  };
}

/** @param again where the first of the items stands when all are sent again */
async function expectManyOwn(world: World, wire: Wire, route: string, body: object, again: number): Promise<void> {
  const tenants = world.tenants();
  const receiptsOf = async () => {
    const answers = await callAll(world, wire, route, tenants, body);
    expect(answers.map((answer) => answer.caller.tenant_id)).toEqual(tenants);
    return answers.map((answer) => answer.items.map(receiptOf) as ReturnType<typeof receiptOf>[]);
  };
  const receipts = await receiptsOf();
  expectAllDifferent(receipts.map(([receipt]) => receipt?.log_origin));
  for (const own of receipts) expect(own.map(({ leaf_index }) => leaf_index)).toEqual([1, 2]);
  await expectForeignHeaderRefused(world, wire, route, tenants, body);
  for (const own of await receiptsOf()) expect(own.map(({ leaf_index }) => leaf_index)).toEqual([again, again + 1]);
}

/** The streams of all tenants are open at once, and their numbers and keys are the same. */
function streamsOwn(stream: "streamEvents" | "streamRegistrations"): Check {
  return async (world) => {
    const client = createClient(BulkStreamService, createGrpcTransport({ baseUrl: world.url }));
    const { event, registration } = streamed;
    const requests = ["first", "second"].map((idempotencyKey) => ({
      sequence: 7n,
      item: { idempotencyKey, ...(stream === "streamEvents" ? { event } : { registration }) },
    }));
    const places = async (tenant: string) => {
      const receipts = [];
      const answers = client[stream](asyncOf(requests) as never, { headers: bearer(world.token(tenant)) });
      for await (const { items } of answers as AsyncIterable<{ items: { result?: object }[] }>)
        for (const { result } of items) {
          const { ingestion, registration } = result as Partial<Record<"ingestion" | "registration", WithReceipt>>;
          receipts.push((ingestion ?? registration)?.receipt);
        }
      return receipts;
    };
    const tenants = world.tenants();
    for (let i = 0; i < 2; i++) {
      const all = await Promise.all(tenants.map(places));
      expectAllDifferent(all.map(([receipt]) => receipt?.logOrigin));
      for (const own of all) expect(own.map((receipt) => receipt?.leafIndex)).toEqual([1n, 2n]);
    }
  };
}

interface WithReceipt {
  readonly receipt?: { readonly logOrigin: string; readonly leafIndex: bigint };
}

const described = { workload: { application: "payroll" }, resource: { kind: "record" } };
const streamed = {
  event: { eventType: EvidenceEventType.PROTECT, ...described },
  registration: {
    operation: ProtectionOperation.PROTECT,
    artifactProfile: ArtifactProfile.TDF,
    artifactDigest: "sha256:streamed",
    ...described,
  },
};

async function* asyncOf<T>(items: readonly T[]): AsyncGenerator<T> {
  yield* items;
}

async function callAll(
  world: World,
  wire: Wire,
  route: string,
  tenants: readonly string[],
  body: unknown = bodyOf(route),
) {
  const calls = tenants.map((tenant) => wire.call(route, body, bearer(world.token(tenant))));
  return (await Promise.all(calls)).map(answerOf);
}

function expectAlike(tenants: readonly string[], answers: readonly ReturnType<typeof answerOf>[]): void {
  expect(answers.map((answer) => answer.caller.tenant_id)).toEqual(tenants);
  const [first, ...others] = answers.map(withoutOwn);
  for (const other of others) expect(other).toEqual(first);
}

/** The answer without the names of tenant and record. */
function withoutOwn({ caller, ...answer }: ReturnType<typeof answerOf>): unknown {
  const { tenant_id: _, ...who } = caller;
  const members = Object.entries(answer).map(([name, value]) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return [name, value];
    const { receipt: _receipt, decision_id: _id, ...rest } = value as Record<string, unknown>;
    return [name, rest];
  });
  return { ...Object.fromEntries(members), caller: who };
}

async function expectForeignHeaderRefused(
  world: World,
  wire: Wire,
  route: string,
  tenants: readonly string[],
  body: unknown = bodyOf(route),
) {
  const refused = tenants.map(async (tenant, at) => {
    const header = { "x-svc-tenant-id": tenants[(at + 1) % tenants.length] as string };
    return reasonOf(await wire.call(route, body, { ...bearer(world.token(tenant)), ...header }));
  });
  expect(new Set(await Promise.all(refused))).toEqual(new Set(["tenant_mismatch"]));
}
