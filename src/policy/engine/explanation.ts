/** Explains a decision by layer: which policies applied and which decided. */
import type { Effect } from "@cedar-policy/cedar-wasm/nodejs";
import type { CheckedPolicy } from "../check/check-set.ts";
import { inputsRead, joinUses } from "../check/reads.ts";
import { type CedarRequest, fullRequestBuilder } from "../evaluate/cedar-request.ts";
import { type Condition, neededFor, unmetConditions } from "../evaluate/conditions.ts";
import type { EntitySource } from "../evaluate/entity-request.ts";
import type { SetResult } from "../evaluate/prepared-set.ts";
import { expressionOf } from "../evaluate/program.ts";
import type { AnnotatedGuidance } from "../guidance/annotations.ts";
import { describeGuidance } from "../guidance/guidance.ts";
import { formatObligation } from "../guidance/obligations.ts";
import type { Layer, PolicyAction, PolicyDecision, PolicyQuery } from "../model/decision.ts";
import type { InputCatalogue, InputValue } from "../model/inputs.ts";
import type { LayerSet } from "./combined-decision.ts";

/** One policy that applies to the action. */
export interface ExplainedPolicy {
  readonly id: string;
  readonly file: string;
  /** From 1. */
  readonly line: number;
  readonly effect: Effect;
  readonly description?: string;
  /** Whether it determined the result of its layer. If a forbid denies, no permit decides. */
  readonly decided: boolean;
  /** Annotations that guide the answer. */
  readonly guidance: AnnotatedGuidance;
  /** Inputs that it reads, by name, with the query's values; undefined if the query has none. */
  readonly inputs: Readonly<Record<string, InputValue>>;
  /** Unmet conditions, in the order of Cedar's evaluation; none if the policy applies. */
  readonly unmet: readonly UnmetCondition[];
}

export interface UnmetCondition {
  /** In Cedar's syntax: `!(context.claimed has purpose)`. */
  readonly condition: string;
  /** What would satisfy it; completes "needs …". */
  readonly needs: string;
  /** `unknown` if it was not evaluated, because an earlier condition failed. */
  readonly state: "fails" | "unknown";
  /** Inputs that it reads, as above. */
  readonly inputs: Readonly<Record<string, InputValue>>;
}

export interface ExplainedLayer {
  readonly layer: Layer;
  readonly set: string;
  /** Result of the layer alone. */
  readonly outcome: SetResult["outcome"];
  /** Policies whose scope admits the action; those that decided come first, each part in the order of the files. */
  readonly policies: readonly ExplainedPolicy[];
  /** Ids of the policies whose scope does not admit the action, in the order of the files. */
  readonly otherActions: readonly string[];
}

export interface Explanation {
  readonly decision: PolicyDecision;
  /** Empty if the tenant has no set. */
  readonly layers: readonly ExplainedLayer[];
}

/**
 * Evaluates the query again, uncached and each layer separately, and explains each layer's result.
 *
 * @param evaluate evaluates a set alone
 */
export function explain(
  layers: readonly LayerSet[],
  evaluate: (set: string, request: CedarRequest | undefined) => SetResult,
  query: PolicyQuery,
  decision: PolicyDecision,
  catalogue: InputCatalogue,
  source: EntitySource | undefined,
): Explanation {
  const use = joinUses(layers.flatMap(({ policies }) => policies.map(({ entities }) => entities)));
  const request = fullRequestBuilder(catalogue, { source, use })(query);
  const asked: Asked = {
    action: query.action,
    isOnBehalfOf: query.onBehalfOf !== undefined,
    request,
    catalogue,
    valuesOf: (names) => Object.fromEntries(names.map((name) => [name, catalogue.reader(name)(query)])),
  };
  return { decision, layers: layers.map((layer) => explainLayer(layer, evaluate(layer.set, request), asked)) };
}

interface Asked {
  readonly action: PolicyAction;
  /** Whether it is about another subject than the caller. */
  readonly isOnBehalfOf: boolean;
  /** Undefined if the query does not have the right types. */
  readonly request: CedarRequest | undefined;
  readonly catalogue: InputCatalogue;
  /** Values of the named inputs. */
  readonly valuesOf: (names: readonly string[]) => Readonly<Record<string, InputValue>>;
}

function explainLayer(
  { layer, set, policies }: LayerSet,
  { outcome, policies: deciding }: SetResult,
  asked: Asked,
): ExplainedLayer {
  const all = [...policies];
  const decided = new Set(deciding.map((position) => all[position]));
  const admitting = all.filter(({ actions }) => actions.has(asked.action));
  const texts = admitting.map(({ text }) => text);
  const conditions = asked.request === undefined ? [] : unmetConditions(texts, asked.request);
  const explained = admitting.map((policy, index) =>
    explainPolicy(policy, decided.has(policy), conditions[index] ?? [], asked),
  );
  return {
    layer,
    set,
    outcome,
    policies: [...explained.filter(({ decided }) => decided), ...explained.filter(({ decided }) => !decided)],
    otherActions: all.filter(({ actions }) => !actions.has(asked.action)).map(({ id }) => id),
  };
}

function explainPolicy(
  { id, file, line, effect, description, guidance, reads, countsOnBehalfOf }: CheckedPolicy,
  decided: boolean,
  conditions: readonly Condition[],
  { catalogue, valuesOf, isOnBehalfOf }: Asked,
): ExplainedPolicy {
  const uncounted: readonly UnmetCondition[] = isOnBehalfOf && !countsOnBehalfOf ? [readsNobody] : [];
  const unmet = conditions.map(({ text, expression, state }): UnmetCondition => {
    if (expression === undefined) return { condition: text, needs: text, state, inputs: valuesOf(reads) };
    const read = inputsRead({ scope: [], conditions: [expressionOf(expression)] }, catalogue);
    return { condition: text, needs: neededFor(expression), state, inputs: valuesOf(read) };
  });
  const inputs = valuesOf(reads);
  return {
    id,
    file,
    line,
    effect,
    ...(description !== undefined && { description }),
    decided,
    guidance,
    inputs,
    unmet: [...uncounted, ...unmet],
  };
}

/** Why a permit written for callers does not permit a question about another subject. */
const readsNobody: UnmetCondition = {
  condition: "every way to permit reads context.on_behalf_of",
  needs: "to read context.on_behalf_of, because the question is about another subject than the caller",
  state: "fails",
  inputs: {},
};

/** An explanation as JSON, with absent values as null. */
export function explanationMembers({ decision, layers }: Explanation) {
  return {
    allow: decision.allow,
    policy_revision: decision.policyRevision,
    reasons: decision.reasons,
    inputs: decision.inputs,
    guidance: describeGuidance(decision.guidance),
    obligations: decision.obligations,
    alerts: decision.alerts,
    layers: layers.map(({ policies, ...layer }) => ({
      ...layer,
      policies: policies.map(({ guidance, inputs, unmet, ...rest }) => ({
        ...rest,
        inputs: valuesOf(inputs),
        annotations: annotationsOf(guidance),
        unmet: unmet.map((condition) => ({ ...condition, inputs: valuesOf(condition.inputs) })),
      })),
    })),
  };
}

/** Annotations of a policy, as its author wrote them. */
export function annotationsOf({ scalars, lists, obligations }: AnnotatedGuidance) {
  return { ...scalars, ...lists, ...(obligations && { obligation: obligations.map(formatObligation) }) };
}

function valuesOf(inputs: Readonly<Record<string, InputValue>>) {
  return Object.fromEntries(Object.entries(inputs).map(([name, value]) => [name, value ?? null]));
}
