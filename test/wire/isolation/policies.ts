/** Policy sets, the memory of rulings, kept revisions and managed keys. */
import { expect } from "vitest";
import { recordIn } from "../../harness/ledger.ts";
import { personKind, personPolicyOf, policyOf, tenantsWithoutSets, tenantsWithSets } from "./policy-sets.ts";
import { answerOf, bearer, type IsolationRow, type Wire, type World } from "./world.ts";

const plan = {
  operation: "protect",
  workload: { application: "payroll" },
  resource: { kind: "record", id: "1" },
};

/** Asked about the same inputs, each tenant's own set decides, in whatever order they ask. */
async function ownSetDecides(world: World, wire: Wire): Promise<void> {
  const tenants = [...tenantsWithSets, ...tenantsWithoutSets];
  const revisions = new Set<string>();
  const ask = async (tenant: string) => {
    const outcome = await wire.call("/v1/sdk/protection-plan", plan, bearer(world.token(tenant)));
    const { decision } = answerOf(outcome);
    expect(decision.reasons, tenant).toEqual(["platform/platform", `tenant/${policyOf(tenant)}`]);
    revisions.add(decision.policy_revision);
  };
  for (const tenant of tenants) await ask(tenant);
  for (const tenant of tenants.toReversed()) await ask(tenant);
  await Promise.all([...tenants, ...tenants].map(ask));
  // One name for all that decides in the deployment: it reveals to no tenant what another's set says, nor that it
  // exists.
  expect(revisions.size).toBe(1);
}

/** A managed key is its tenant's: to others it is denied, without the name of its owner. */
async function ownKeysOnly(world: World, wire: Wire): Promise<void> {
  const [owner, ...others] = tenantsWithSets as [string, ...string[]];
  const body = { ...plan, operation: "wrap", key_reference: "kms://owned/1" };
  const ask = async (tenant: string) =>
    answerOf(await wire.call("/v1/sdk/key-access-plan", body, bearer(world.token(tenant)))).decision;
  expect(await ask(owner)).toMatchObject({ allow: true });
  for (const tenant of others) {
    const decision = await ask(tenant);
    expect(decision).toMatchObject({ allow: false, reasons: ["platform/key-reference-of-another-tenant"] });
    expect(JSON.stringify(decision.reasons)).not.toContain(owner);
  }
  expect(await ask(owner)).toMatchObject({ allow: true });
}

/** What is known of a principal is known of it alone, though others of the same name ask, and are known as well. */
async function ownEntitiesOnly(world: World, wire: Wire): Promise<void> {
  const body = { ...plan, resource: { kind: personKind } };
  const ask = async (tenant: string) => {
    const known = tenantsWithSets.includes(tenant) ? [`platform/${personPolicyOf(tenant)}`] : [];
    for (const route of ["/v1/sdk/protection-plan", "/v1/sdk/policy-resolve"]) {
      const answer = answerOf(await wire.call(route, body, bearer(world.token(tenant))));
      const reasons = [...known, "platform/platform", `tenant/${policyOf(tenant)}`];
      expect(answer.decision.reasons, tenant).toEqual(reasons);
      const { outcome } = recordIn(answer);
      for (const other of tenantsWithSets) {
        if (other === tenant) continue;
        expect(JSON.stringify([answer.decision, outcome]), other).not.toContain(`"platform/${personPolicyOf(other)}"`);
      }
    }
  };
  const tenants = [...tenantsWithSets, ...tenantsWithoutSets, ...world.tenants()];
  for (const tenant of [...tenants, ...tenants.toReversed()]) await ask(tenant);
  await Promise.all(tenants.map(ask));
}

export const policyRows: readonly IsolationRow[] = [
  { thing: "a policy set and its remembered rulings", tables: ["policy_revisions"], check: ownSetDecides },
  { thing: "a managed key", tables: [], check: ownKeysOnly },
  { thing: "what is known of a principal", tables: [], check: ownEntitiesOnly },
];
