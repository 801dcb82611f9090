/** An explanation for people. */
import { nonePermits } from "../../base/vocabulary.ts";
import type { ExplainedLayer, ExplainedPolicy, Explanation, NamedValues } from "../../policy/engine/explanation.ts";
import { formatObligation } from "../../policy/guidance/obligations.ts";

export function explanationText(explanation: Explanation): string {
  const { allow, policy_revision, reasons, guidance, obligations, alerts, layers } = explanation;
  return [
    `${allow ? "ALLOW" : "DENY"} under ${policy_revision}`,
    `because of: ${reasons.join(", ") || nonePermits}`,
    ...layers.flatMap(layerLines),
    "guidance:",
    ...Object.entries(guidance).map(([name, value]) => `  ${name}: ${[value].flat().join(", ")}`),
    ...(obligations.length === 0 ? [] : ["obligations:", ...obligations.map((each) => `  ${formatObligation(each)}`)]),
    ...(alerts.length === 0 ? [] : [`alerts: ${alerts.join(", ")}`]),
  ].join("\n");
}

function layerLines(explained: ExplainedLayer): readonly string[] {
  const { layer, set, outcome, policies, otherActions } = explained;
  const decided = policies.filter((policy) => policy.decided);
  const others = policies.filter((policy) => !policy.decided);
  return [
    `${layer} (set ${set}): ${outcome}`,
    ...decided.flatMap(decidedLines),
    ...(outcome === "error" && decided.length === 0 ? ["  the question cannot be evaluated"] : []),
    ...(outcome === "deny" && decided.length === 0 ? defaultDenyLines(others) : othersLines(others, outcome)),
    ...(otherActions.length === 0 ? [] : [`  of other actions: ${otherActions.join(", ")}`]),
  ];
}

function decidedLines(policy: ExplainedPolicy): readonly string[] {
  const { description, annotations, inputs, unmet } = policy;
  return [
    `  ${nameOf(policy)}${description === undefined ? "" : `: ${description}`}`,
    ...Object.entries(annotations).map(([name, value]) => `    says ${name}: ${[value].flat().join(", ")}`),
    ...readLines(inputs),
    ...unmet.slice(0, 1).map(({ condition }) => `    cannot be evaluated: ${condition}`),
  ];
}

/** A policy that did not decide, with the first condition that was false. */
function othersLines(
  policies: readonly ExplainedPolicy[],
  outcome: ExplainedLayer["outcome"] = "deny",
): readonly string[] {
  if (policies.length === 0) return [];
  return [
    "  did not decide:",
    ...policies.flatMap((policy) => {
      const [first] = policy.unmet;
      return first === undefined
        ? [`    ${nameOf(policy)}: holds, but ${outcome === "error" ? "a policy that fails" : "a forbid"} decides`]
        : [`    ${nameOf(policy)}: not so: ${first.condition}`, ...readLines(first.inputs, "      ")];
    }),
  ];
}

/** No policy decided, so the layer denies: lists permits that would have matched, then the others. */
function defaultDenyLines(policies: readonly ExplainedPolicy[]): readonly string[] {
  const permits = policies.filter(({ effect }) => effect === "permit");
  return [
    ...(permits.length === 0 ? ["  no policy permits it, whatever is asked"] : ["  would permit it:"]),
    ...permits.flatMap((policy) => [
      `    ${nameOf(policy)}`,
      ...policy.unmet.flatMap(({ needs, inputs }) => [`      needs ${needs}`, ...readLines(inputs, "        ")]),
    ]),
    ...othersLines(policies.filter(({ effect }) => effect === "forbid")),
  ];
}

function readLines(inputs: NamedValues, indent = "    "): readonly string[] {
  return Object.entries(inputs).map(
    ([name, value]) => `${indent}read ${name}: ${value === null ? "absent" : JSON.stringify(value)}`,
  );
}

function nameOf({ effect, id, file, line }: ExplainedPolicy): string {
  return `${effect} ${id} (${file}:${line})`;
}
