/** Every RPC: what it answers to one tenant is what it answers to any other, but for what is the tenant's own. */
import { readFileSync } from "node:fs";
import { fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "vitest";
import { sampleCalls } from "../../../dev/requests.ts";
import { opensOwnSessions } from "./sessions.ts";
import { answerOf, bearer, expectAllDifferent, reasonOf, receiptOf, recordOf, type Wire, type World } from "./world.ts";

type Check = (world: World, wire: Wire) => Promise<void>;

const image = new URL("../../../gen/image.binpb", import.meta.url);

/** Full names of all methods of the service's own package, as its `.proto` files have them. */
export function declaredRpcs(): readonly string[] {
  const { file } = fromBinary(FileDescriptorSetSchema, readFileSync(image));
  return file
    .filter((each) => each.package.startsWith("platform.sdk."))
    .flatMap((each) => each.service.map((service) => ({ name: `${each.package}.${service.name}`, service })))
    .flatMap(({ name, service }) => service.method.map((method) => `${name}/${method.name}`));
}

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
      expect(recordOf(answer)).toMatchObject({ tenant_id: tenants[at], log: receiptOf(answer).log_origin });
    }
    await expectForeignHeaderRefused(world, wire, route, tenants);
    for (const answer of await callAll(world, wire, route, tenants)) expect(receiptOf(answer).leaf_index).toBe(2);
  };
}

async function callAll(world: World, wire: Wire, route: string, tenants: readonly string[]) {
  const calls = tenants.map((tenant) => wire.call(route, bodyOf(route), bearer(world.token(tenant))));
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

async function expectForeignHeaderRefused(world: World, wire: Wire, route: string, tenants: readonly string[]) {
  const refused = tenants.map(async (tenant, at) => {
    const header = { "x-svc-tenant-id": tenants[(at + 1) % tenants.length] as string };
    return reasonOf(await wire.call(route, bodyOf(route), { ...bearer(world.token(tenant)), ...header }));
  });
  expect(new Set(await Promise.all(refused))).toEqual(new Set(["tenant_mismatch"]));
}
