/** Policies that no request meets, by the values that they mention: their types may be good, and yet they say nothing. */
import type { TenantId } from "../../base/ids.ts";
import { checkBundle } from "../check/check.ts";
import type { CheckedPolicy } from "../check/check-policy.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import { queryFor, questionOf } from "../samples/question.ts";
import { unnamedTenant } from "./compare.ts";
import { knownEntities } from "./known-entities.ts";
import { comparisonsOf } from "./policy-tables.ts";
import { maxRows, rowsOf, verdictsOf } from "./rules.ts";
import { type Side, sideOf } from "./side.ts";
import { variablesOf } from "./variables.ts";

/**
 * The policies that apply to no request whatever, such as one `when` a kind is "a" and is "b". Only what is certain is
 * named: where a few values do not stand for all, a policy may apply. Throws a TypeError for a bundle with problems.
 */
export function policiesThatNeverApply(bundle: PolicyBundle): readonly CheckedPolicy[] {
  const side = sideOf(bundle, knownEntities([bundle, bundle]));
  const policies = [...checkBundle(bundle).sets.values()].flat();
  const never = policies.filter((policy) => neverApplies(policy, side));
  side.engine.release();
  return never;
}

function neverApplies(policy: CheckedPolicy, side: Side): boolean {
  if (policy.unconditional) return false;
  const comparisons = comparisonsOf(policy, side);
  if (comparisons.inexact.size > 0 || comparisons.patterns.has("caller.tenant_id")) return false;
  const named = [
    ...[...comparisons.principals].map((uid) => uid.slice(0, uid.indexOf("/"))),
    ...[...(comparisons.values.get("caller.tenant_id") ?? [])].map(String),
  ];
  const tenants = [unnamedTenant, ...new Set(named as TenantId[])];
  // Every row is asked of every tenant and action.
  const maximum = maxRows / (tenants.length * policy.actions.size);
  const { verdictOn, release } = verdictsOf(policy, side);
  const isCertain = tenants.every((tenant) => {
    const { variables, inexact, of } = variablesOf([comparisons], tenant, new Map());
    const indices = of(comparisons);
    const sizes = indices.map((index) => variables[index]?.values.length ?? 0);
    const { rows, isWhole } = rowsOf(sizes, maximum);
    if (inexact.size > 0 || !isWhole) return false;
    return [...policy.actions].every((action) =>
      rows.every((row) => {
        const values = indices.map((index, position) => [index, variables[index]?.values[row[position] ?? 0]] as const);
        const query = queryFor(side.bundle, questionOf(variables, new Map(values), tenant, action));
        return query !== undefined && verdictOn(query) === "otherwise";
      }),
    );
  });
  release();
  return isCertain;
}
