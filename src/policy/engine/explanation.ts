/** Explains a decision: layer by layer, which policies applied and which decided. */
import type { Effect } from "@cedar-policy/cedar-wasm/nodejs";
import type { CheckedPolicy } from "../check/check-policy.ts";
import type { PolicyGuidance } from "../guidance/annotations.ts";
import { type CedarRequest, fullRequestBuilder } from "./cedar-request.ts";
import type { LayerSet } from "./combined-decision.ts";
import type { Layer, PolicyAction, PolicyDecision, PolicyQuery } from "./decision.ts";
import type { Evaluation } from "./engine-sets.ts";
import type { InputCatalogue, InputValue } from "./inputs.ts";

/** One policy that applies to the action. */
export interface ExplainedPolicy {
  readonly id: string;
  readonly file: string;
  /** From 1. */
  readonly line: number;
  readonly effect: Effect;
  readonly description?: string;
  /** Whether what its layer says is said because of it. Where a forbid denies, no permit decides. */
  readonly decided: boolean;
  /** Annotations that guide what is answered. */
  readonly guidance: PolicyGuidance;
  /** Inputs that it reads, by name, with the query's values; undefined where the query has none. */
  readonly inputs: Readonly<Record<string, InputValue>>;
}

export interface ExplainedLayer {
  readonly layer: Layer;
  /** Folder of the set. */
  readonly set: string;
  /** What the layer says by itself. */
  readonly outcome: Evaluation["outcome"];
  /** Policies whose scope admits the action; those that decided come first, each part in the order of the files. */
  readonly policies: readonly ExplainedPolicy[];
}

export interface Explanation {
  readonly decision: PolicyDecision;
  /** Empty where the tenant has no set. */
  readonly layers: readonly ExplainedLayer[];
}

/**
 * Evaluates the query again, uncached and each layer separately, and explains each layer's result.
 *
 * @param evaluate evaluates a set by itself
 */
export function explain(
  layers: readonly LayerSet[],
  evaluate: (set: string, request: CedarRequest | undefined) => Evaluation,
  query: PolicyQuery,
  decision: PolicyDecision,
  catalogue: InputCatalogue,
): Explanation {
  const request = fullRequestBuilder(catalogue)(query);
  const inputOf = (name: string) => catalogue.reader(name)(query);
  return {
    decision,
    layers: layers.map((layer) => explainLayer(layer, evaluate(layer.set, request), query.action, inputOf)),
  };
}

type InputOf = (inputName: string) => InputValue;

function explainLayer(
  { layer, set, policies }: LayerSet,
  { outcome, policyIds }: Evaluation,
  action: PolicyAction,
  inputOf: InputOf,
): ExplainedLayer {
  const asked = [...policies.values()].filter(({ actions }) => actions.has(action));
  const explained = asked.map((policy) => explainPolicy(policy, policyIds.includes(policy.id), inputOf));
  return {
    layer,
    set,
    outcome,
    policies: [...explained.filter(({ decided }) => decided), ...explained.filter(({ decided }) => !decided)],
  };
}

function explainPolicy(policy: CheckedPolicy, decided: boolean, inputOf: InputOf): ExplainedPolicy {
  const { id, file, line, effect, description, guidance, reads } = policy;
  const inputs = Object.fromEntries(reads.map((name) => [name, inputOf(name)]));
  return { id, file, line, effect, ...(description !== undefined && { description }), decided, guidance, inputs };
}
