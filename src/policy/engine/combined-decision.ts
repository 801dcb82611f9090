/** Combines the results of both layers. Key references and scopes are checked afterwards. */
import type { CheckedPolicy } from "../check/check-policy.ts";
import type { PolicyGuidance, StrictnessOrders } from "../guidance/annotations.ts";
import { mergeGuidance } from "../guidance/guidance-merge.ts";
import { evaluationError, guidanceConflict, type Layer, reasonOf } from "./decision.ts";
import type { Evaluation } from "./engine-sets.ts";

/** A policy set in the role of a layer. */
export interface LayerSet {
  readonly layer: Layer;
  /** Folder of the set. */
  readonly set: string;
  readonly policies: ReadonlyMap<string, CheckedPolicy>;
}

/** The combined decision of both layers. */
export interface CombinedDecision {
  readonly allow: boolean;
  /** Sorted. */
  readonly reasons: readonly string[];
  /** Merged guidance of the deciding policies. */
  readonly guidance: PolicyGuidance;
  /** Whether something could not be evaluated: a denial that is not cached. */
  readonly failed: boolean;
}

/**
 * Allows where both layers allow; an error in either denies. Each layer denies by default. The reasons of a denial are
 * those of the layers that did not allow.
 *
 * @param evaluations of the layers, in their order
 */
export function combineLayers(
  layers: readonly LayerSet[],
  evaluations: readonly Evaluation[],
  strictness: StrictnessOrders,
): CombinedDecision {
  const said = layers.map((layer, index) => ({ ...layer, ...(evaluations[index] as Evaluation) }));
  const failed = said.some(({ outcome }) => outcome === "error");
  const allow = !failed && said.every(({ outcome }) => outcome === "allow");
  const deciding = allow ? said : said.filter(({ outcome }) => (failed ? outcome === "error" : outcome === "deny"));
  const reasons = deciding.flatMap(reasonsOf);
  if (failed) return { allow, reasons: reasons.sort(), guidance: nothing, failed };

  const policies = deciding.flatMap((layer) => layer.policyIds.flatMap((id) => layer.policies.get(id) ?? []));
  const { guidance, conflicts } = mergeGuidance(
    policies.map((policy) => policy.guidance),
    strictness,
  );
  if (conflicts.length === 0) return { allow, reasons: reasons.sort(), guidance, failed };
  const conflicting = deciding.flatMap((layer) =>
    layer.policyIds
      .filter((id) => conflicts.some((name) => layer.policies.get(id)?.guidance.scalars[name] !== undefined))
      .map((id) => reasonOf(layer.layer, id)),
  );
  const conflict = [reasonOf("platform", guidanceConflict), ...conflicting].sort();
  return { allow: false, reasons: conflict, guidance: nothing, failed };
}

const nothing: PolicyGuidance = { scalars: {}, lists: {} };

function reasonsOf({ layer, outcome, policyIds }: LayerSet & Evaluation): readonly string[] {
  const ids = policyIds.map((id) => reasonOf(layer, id));
  return outcome === "error" ? [reasonOf(layer, evaluationError), ...ids] : ids;
}
