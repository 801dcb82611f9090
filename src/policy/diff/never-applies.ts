/** Finds policies that no request can meet, although they type-check. */
import { policiesOf } from "../check/check.ts";
import type { CheckedPolicy } from "../check/check-set.ts";
import { queryFor, questionOf } from "../check/question.ts";
import { comparisonsOf, merged, variablesOf } from "../check/terms.ts";
import { cedarRequestBuilder } from "../evaluate/cedar-request.ts";
import { PreparedSet } from "../evaluate/prepared-set.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import { knownEntities, type Side, sideOf } from "./side.ts";

/** Most combinations of values per policy. */
const maxRows = 4_096;

/**
 * Returns the policies that apply to no request, such as `when` a kind is "a" and is "b". Only certain cases are
 * returned: if the sampled values may not represent all, a policy may apply. Throws a TypeError for a bundle with
 * problems.
 */
export function policiesThatNeverApply(bundle: PolicyBundle): readonly CheckedPolicy[] {
  const side = sideOf(bundle, knownEntities([bundle, bundle]));
  return policiesOf(bundle).filter((policy) => neverApplies(policy, side));
}

function neverApplies(policy: CheckedPolicy, side: Side): boolean {
  const comparisons = comparisonsOf(policy, side.catalogue, side.known);
  if (policy.unconditional || !comparisons.isExact) return false;
  const variables = merged(variablesOf(comparisons));
  const rows = variables.reduce((product, { values }) => product * values.length, policy.actions.size);
  if (rows > maxRows) return false;
  const build = cedarRequestBuilder(policy.reads, side.catalogue, {
    source: side.engine.entities,
    use: policy.entities,
  });
  const prepared = new PreparedSet([policy.text]);
  try {
    for (let row = 0; row < rows; row++) {
      let rest = row;
      const take = <Item>(from: readonly Item[]): Item => {
        const item = from[rest % from.length] as Item;
        rest = Math.floor(rest / from.length);
        return item;
      };
      const action = take([...policy.actions]);
      const assigned = variables.map((variable) => [variable, take(variable.values)] as const);
      const query = queryFor(side.bundle, questionOf(assigned, "tenant", action));
      if (query === undefined) return false;
      const { outcome, policies } = prepared.evaluate(build(query));
      if (outcome === "error" || policies.length > 0) return false;
    }
    return true;
  } finally {
    prepared.release();
  }
}
