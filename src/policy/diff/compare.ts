/**
 * Compares two bundles: which requests would be decided differently. Cedar says of every policy by itself for which
 * values it applies; how policies decide together is a few rules (a forbid wins, each layer needs a permit), under which
 * the tables are searched. Whatever is found is put to both engines before it counts.
 */
import { isDeepStrictEqual } from "node:util";
import { parseTenantId, type TenantId } from "../../base/ids.ts";
import { cedar } from "../cedar.ts";
import { checkBundle } from "../check/check.ts";
import type { CheckedPolicy } from "../check/check-policy.ts";
import type { PolicyAction } from "../engine/decision.ts";
import { policyActions } from "../engine/schema.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import { otherTenants } from "../load/manifest.ts";
import { compareAction, type Found } from "./action-comparison.ts";
import { knownEntities } from "./known-entities.ts";
import { comparisonsOf, hasSameGuidance, isGuided } from "./policy-tables.ts";
import { layersOf, type Side, sideOf } from "./side.ts";
import { textValues } from "./text-values.ts";

/** One way in which decisions change, over all tenants and actions that it is found for. */
export interface PolicyChange extends Found {
  /** Sorted; `unnamedTenant` for all that neither bundle names. */
  readonly tenants: readonly string[];
  readonly actions: readonly string[];
}

export interface PolicyComparison {
  /** The smallest examples first. */
  readonly changes: readonly PolicyChange[];
  /** What the search could not decide; empty where it was exhaustive. Sorted. */
  readonly undecided: readonly string[];
}

/** Stands for every tenant that neither bundle names. */
export const unnamedTenant = "any-other-tenant" as TenantId;

/** Steps of all searches for one tenant and action. */
const maxSteps = 20_000;

/** Compares bundles that have no problems. Throws a TypeError for others. */
export function compareBundles(old: PolicyBundle, next: PolicyBundle): PolicyComparison {
  const known = knownEntities([old, next]);
  const sides = [sideOf(old, known), sideOf(next, known)] as const;
  const changes = new Map<string, PolicyChange>();
  const undecided = new Set<string>(sharedDeclarations(old, next));
  for (const { tenant, names } of tenantsOf(sides)) {
    for (const actions of actionsOf(sides, tenant)) {
      const compared = compareAction(sides, tenant, actions[0], { steps: maxSteps });
      for (const reason of compared.undecided) undecided.add(reason);
      for (const found of compared.found) note(changes, found, names, actions);
    }
  }
  for (const { engine } of sides) engine.release();
  return {
    changes: [...changes.values()].sort((a, b) => a.size - b.size || (a.cause < b.cause ? -1 : 1)),
    undecided: [...undecided].sort(),
  };
}

function note(
  changes: Map<string, PolicyChange>,
  found: Found,
  names: readonly string[],
  actions: readonly string[],
): void {
  const key = `${found.difference.kind} ${found.cause}`;
  const known = changes.get(key);
  const smallest = known === undefined || found.size < known.size ? found : known;
  changes.set(key, {
    ...smallest,
    tenants: [...new Set([...(known?.tenants ?? []), ...names])].sort(),
    actions: [...new Set([...(known?.actions ?? []), ...actions])],
  });
}

/** An attribute that is of one type here and of another there has no value that both sides read. */
function sharedDeclarations(old: PolicyBundle, next: PolicyBundle): readonly string[] {
  const [before, after] = [old.callerAttributes ?? {}, next.callerAttributes ?? {}];
  return Object.keys(before)
    .filter((name) => Object.hasOwn(after, name) && before[name]?.type !== after[name]?.type)
    .map((name) => `the attribute ${name} of callers is declared with another type`);
}

/** Tenants that may be told apart, one for all that may not. */
function tenantsOf(sides: readonly [Side, Side]) {
  const named = new Set(sides.flatMap(namedTenants));
  const special = new Set(sides.flatMap(comparedTenants));
  const classes = new Map<string, { readonly tenant: TenantId; readonly names: string[] }>();
  for (const tenant of [...[...named, ...special].sort(), unnamedTenant]) {
    const sets = sides.map(({ engine }) => engine.setOf("tenant", tenant as TenantId));
    const key = JSON.stringify([sets, special.has(tenant) ? tenant : ""]);
    const known = classes.get(key) ?? { tenant: tenant as TenantId, names: [] };
    known.names.push(tenant);
    classes.set(key, known);
  }
  return [...classes.values()];
}

function namedTenants({ bundle }: Side): readonly string[] {
  return Object.keys(bundle.manifest.tenants).filter((tenant) => tenant !== otherTenants);
}

/** Tenants that a policy or a rule of key references names. */
function comparedTenants(side: Side): readonly string[] {
  const { bundle } = side;
  const policies = [...checkBundle(bundle).sets.values()].flat();
  const compared = policies.flatMap((policy) => {
    const { values, patterns, principals } = comparisonsOf(policy, side);
    const literals = [...(values.get("caller.tenant_id") ?? [])].map(String);
    const like = patterns.get("caller.tenant_id") ?? [];
    return [
      ...(like.length === 0 ? literals : textValues(literals, like, 1).values),
      ...[...principals].map((uid) => uid.slice(0, uid.indexOf("/"))),
    ];
  });
  const keyed = bundle.keyReferences.flatMap(({ tenants }) => tenants ?? []);
  return [...compared, ...keyed].filter((tenant) => parseTenantId(tenant) !== undefined);
}

/** Actions about which the same policies decide, with the same guidance, stand together. */
function actionsOf(
  sides: readonly [Side, Side],
  tenant: TenantId,
): readonly (readonly [PolicyAction, ...PolicyAction[]])[] {
  const groups = new Map<string, [PolicyAction, ...PolicyAction[]]>();
  for (const action of policyActions) {
    const [old, next] = sides.map((side) => (layersOf(side, tenant, action) ?? []).map(({ policies }) => policies));
    const policies = [...(old ?? []), ...(next ?? [])];
    const texts = policies.map((each) => each.map(({ text }) => text));
    // What guidance follows where nobody guides is one thing for one action, and another for another.
    const isGuidedAlike = hasSameGuidance(sides) && isDeepStrictEqual(old?.map(guidedTexts), next?.map(guidedTexts));
    const isAlike = isGuidedAlike && !texts.flat().some(asksForAction);
    const key = JSON.stringify([isAlike ? "" : action, texts]);
    const known = groups.get(key);
    if (known === undefined) groups.set(key, [action]);
    else known.push(action);
  }
  return [...groups.values()];
}

function guidedTexts(policies: readonly CheckedPolicy[]): readonly string[] {
  return policies.filter(isGuided).map(({ text }) => text);
}

function asksForAction(text: string): boolean {
  const parsed = cedar().policyToJson(text);
  return parsed.type === "failure" || JSON.stringify(parsed.json.conditions).includes('{"Var":"action"}');
}
