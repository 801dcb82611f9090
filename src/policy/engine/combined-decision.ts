/** Combines the results of both layers. Key references, scopes and understood obligations are checked afterwards. */
import type { CheckedPolicy } from "../check/check-set.ts";
import type { SetResult } from "../evaluate/prepared-set.ts";
import type { AnnotatedGuidance, PolicyGuidance, StrictnessOrders } from "../guidance/annotations.ts";
import { mergeGuidance } from "../guidance/guidance.ts";
import { fillIn, maximumObligations, mergeObligations } from "../guidance/obligations.ts";
import { type Obligation, ownReason, reasonOf } from "../model/decision.ts";
import type { InputValue } from "../model/inputs.ts";
import type { LayerSet } from "./engine-set.ts";

export interface CombinedDecision {
  readonly allow: boolean;
  /** Sorted. */
  readonly reasons: readonly string[];
  /** Merged guidance of the deciding policies. */
  readonly guidance: PolicyGuidance;
  /** Merged obligations of the deciding policies, with their values. */
  readonly obligations: readonly Obligation[];
  /** Whether something could not be evaluated: a denial that is not cached. */
  readonly failed: boolean;
}

/**
 * Allows if both layers allow; an error in either denies. Each layer denies by default. The reasons of a denial are
 * those of the layers that did not allow.
 *
 * @param results of the layers, in their order
 * @param inputOf returns the value of an input that the policies read
 */
export function combineLayers(
  layers: readonly LayerSet[],
  results: readonly SetResult[],
  strictness: StrictnessOrders,
  inputOf: (input: string) => InputValue,
): CombinedDecision {
  const said = layers.map((of, index) => ({ ...(results[index] as SetResult), of }));
  const failed = said.some(({ outcome }) => outcome === "error");
  const allow = !failed && said.every(({ outcome }) => outcome === "allow");
  const deciding = allow ? said : said.filter(({ outcome }) => (failed ? outcome === "error" : outcome === "deny"));
  const policies = deciding.flatMap(({ of: { layer, set }, policies: positions }) =>
    positions.map((position): DecidingPolicy => {
      const { id, guidance } = set.policies[position] as CheckedPolicy;
      return { reason: reasonOf(layer, id), guidance };
    }),
  );
  const reasons = policies.map(({ reason }) => reason);
  if (failed) {
    const errors = deciding.map(({ of: { layer } }) => ownReason("evaluation-error", layer));
    return { ...denial, reasons: [...errors, ...reasons].sort(), failed };
  }
  const { guidance, conflicts } = mergeGuidance(
    policies.map((policy) => policy.guidance),
    strictness,
  );
  const { obligations, withoutValue } = obligationsOf(policies, inputOf);
  if (conflicts.length > 0 || obligations.length > maximumObligations) {
    const conflicting = policies.filter(({ guidance: { scalars, obligations: own } }) =>
      conflicts.length > 0 ? conflicts.some((name) => scalars[name] !== undefined) : own !== undefined,
    );
    const names = conflicting.map(({ reason }) => reason);
    return { ...denial, reasons: [ownReason("guidance-conflict"), ...names].sort(), failed };
  }
  if (withoutValue.length === 0) return { allow, reasons: reasons.sort(), guidance, obligations, failed };
  const missing = ownReason("obligation-without-value");
  // A denial stays a denial, with all known reasons.
  if (!allow) return { allow, reasons: [...reasons, missing].sort(), guidance, obligations, failed };
  return { ...denial, reasons: [missing, ...withoutValue].sort(), failed };
}

interface DecidingPolicy {
  readonly reason: string;
  readonly guidance: AnnotatedGuidance;
}

/** Merged obligations with their values, and the policies with an obligation parameter that has no value. */
function obligationsOf(policies: readonly DecidingPolicy[], inputOf: (input: string) => InputValue) {
  const obligations: Obligation[] = [];
  const withoutValue = new Set<string>();
  for (const { reason, guidance } of policies) {
    for (const template of guidance.obligations ?? []) {
      const filled = fillIn(template, inputOf);
      if (filled === undefined) withoutValue.add(reason);
      else obligations.push(filled);
    }
  }
  return { obligations: mergeObligations(obligations), withoutValue: [...withoutValue] };
}

const denial = { allow: false, guidance: { scalars: {}, lists: {} }, obligations: [] } as const;
