/** Explains a decision by layer, as JSON: which policies applied and which decided. */
import type { CheckedPolicy } from "../check/check-set.ts";
import { inputsRead, joinUses } from "../check/reads.ts";
import { type CedarRequest, cedarRequestBuilder } from "../evaluate/cedar-request.ts";
import { type Condition, neededFor, unmetConditions } from "../evaluate/conditions.ts";
import type { EntitySource } from "../evaluate/entity-request.ts";
import { expressionOf } from "../evaluate/program.ts";
import type { AnnotatedGuidance } from "../guidance/annotations.ts";
import { describeGuidance } from "../guidance/guidance.ts";
import { formatObligation } from "../guidance/obligations.ts";
import type { PolicyDecision, PolicyQuery } from "../model/decision.ts";
import type { InputCatalogue, InputValue } from "../model/inputs.ts";
import type { LayerSet } from "./engine-set.ts";

/** What decided a question, and why, as JSON: absent values are null. */
export type Explanation = ReturnType<typeof explain>;
export type ExplainedLayer = ReturnType<typeof explainLayer>;
export type ExplainedPolicy = ReturnType<typeof explainPolicy>;

/**
 * Evaluates the query again, uncached and each layer separately, and explains each layer's result. Without layers, the
 * tenant has no set.
 */
export function explain(
  layers: readonly LayerSet[],
  query: PolicyQuery,
  decision: PolicyDecision,
  catalogue: InputCatalogue,
  source: EntitySource | undefined,
) {
  const use = joinUses(layers.flatMap(({ set }) => set.policies.map(({ entities }) => entities)));
  const request = cedarRequestBuilder(catalogue.names, catalogue, { source, use })(query);
  const asked: Asked = { query, request, catalogue };
  return {
    allow: decision.allow,
    policy_revision: decision.policyRevision,
    reasons: decision.reasons,
    inputs: decision.inputs,
    guidance: describeGuidance(decision.guidance),
    obligations: decision.obligations,
    alerts: decision.alerts,
    layers: layers.map((layer) => explainLayer(layer, asked)),
  };
}

interface Asked {
  readonly query: PolicyQuery;
  /** Undefined if the query does not have the right types. */
  readonly request: CedarRequest | undefined;
  readonly catalogue: InputCatalogue;
}

/** The query's values of inputs, by name. */
export type NamedValues = Readonly<Record<string, Exclude<InputValue, undefined> | null>>;

function valuesOf(names: readonly string[], { query, catalogue }: Asked): NamedValues {
  return Object.fromEntries(names.map((name) => [name, catalogue.reader(name)(query) ?? null]));
}

function explainLayer({ layer, set }: LayerSet, asked: Asked) {
  const { policies } = set;
  const { outcome, policies: deciding } = set.byCedar(asked.request, asked.query.onBehalfOf !== undefined);
  const decided = new Set(deciding.map((position) => policies[position]));
  const [admitting = [], others = []] = [true, false].map((admits) =>
    policies.filter(({ actions }) => actions.has(asked.query.action) === admits),
  );
  const texts = admitting.map(({ text }) => text);
  const conditions = asked.request === undefined ? [] : unmetConditions(texts, asked.request);
  const explained = admitting.map((policy, index) =>
    explainPolicy(policy, decided.has(policy), conditions[index] ?? [], asked),
  );
  return {
    layer,
    set: set.name,
    /** Result of the layer alone. */
    outcome,
    /** Ids of the policies whose scope does not admit the action, in the order of the files. */
    otherActions: others.map(({ id }) => id),
    /** Policies whose scope admits the action; those that decided come first, each part in the order of the files. */
    policies: [...explained.filter(({ decided }) => decided), ...explained.filter(({ decided }) => !decided)],
  };
}

/** @param decided whether it determined the result of its layer. If a forbid denies, no permit decides */
function explainPolicy(
  { id, file, line, effect, description, guidance, reads, countsOnBehalfOf }: CheckedPolicy,
  decided: boolean,
  conditions: readonly Condition[],
  asked: Asked,
) {
  const isUncounted = asked.query.onBehalfOf !== undefined && !countsOnBehalfOf;
  const unmet = conditions.map(({ text, expression, state }): UnmetCondition => {
    if (expression === undefined) return { condition: text, needs: text, state, inputs: valuesOf(reads, asked) };
    const read = inputsRead({ scope: [], conditions: [expressionOf(expression)] }, asked.catalogue);
    return { condition: text, needs: neededFor(expression), state, inputs: valuesOf(read, asked) };
  });
  return {
    id,
    file,
    line,
    effect,
    ...(description !== undefined && { description }),
    decided,
    inputs: valuesOf(reads, asked),
    annotations: annotationsOf(guidance),
    /** In the order of Cedar's evaluation; none if the policy applies. */
    unmet: isUncounted ? [readsNoSubject, ...unmet] : unmet,
  };
}

/** Annotations that guide the answer, as the author wrote them. */
function annotationsOf({ scalars, lists, obligations }: AnnotatedGuidance) {
  return { ...scalars, ...lists, ...(obligations && { obligation: obligations.map(formatObligation) }) };
}

interface UnmetCondition extends Pick<Condition, "state"> {
  /** In Cedar's syntax: `!(context.claimed has purpose)`. */
  readonly condition: string;
  /** What would satisfy it; completes "needs …". */
  readonly needs: string;
  /** Inputs that it reads. */
  readonly inputs: NamedValues;
}

/** Why a permit written for callers does not permit a question about another subject. */
const readsNoSubject: UnmetCondition = {
  condition: "every way to permit reads context.on_behalf_of",
  needs: "to read context.on_behalf_of, because the question is about another subject than the caller",
  state: "fails",
  inputs: {},
};
