/** An explanation for people. */
import { nonePermits } from "../../base/vocabulary.ts";
import {
  annotationsOf,
  type ExplainedLayer,
  type ExplainedPolicy,
  type Explanation,
  type UnmetCondition,
} from "../../policy/engine/explanation.ts";
import { describeGuidance } from "../../policy/guidance/guidance.ts";
import type { Obligation } from "../../policy/model/decision.ts";
import type { InputValue } from "../../policy/model/inputs.ts";

export function explanationText({ decision, layers }: Explanation): string {
  const guidance = Object.entries(describeGuidance(decision.guidance));
  return [
    `${decision.allow ? "ALLOW" : "DENY"} under ${decision.policyRevision}`,
    `because of: ${decision.reasons.join(", ") || nonePermits}`,
    ...layers.flatMap(layerLines),
    "guidance:",
    ...guidance.map(([name, value]) => `  ${name}: ${[value].flat().join(", ")}`),
    ...linesUnder("obligations:", decision.obligations.map(obligationText)),
    ...(decision.alerts.length === 0 ? [] : [`alerts: ${decision.alerts.join(", ")}`]),
  ].join("\n");
}

function linesUnder(heading: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : [heading, ...lines.map((line) => `  ${line}`)];
}

function obligationText({ id, parameters }: Obligation): string {
  return [id, ...Object.entries(parameters).map(([name, value]) => `${name} = ${JSON.stringify(value)}`)].join("; ");
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
  const { description, guidance, inputs, unmet } = policy;
  return [
    `  ${nameOf(policy)}${description === undefined ? "" : `: ${description}`}`,
    ...Object.entries(annotationsOf(guidance)).map(([name, value]) => `    says ${name}: ${[value].flat().join(", ")}`),
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
      ...policy.unmet.flatMap((condition) => [`      needs ${condition.needs}`, ...unmetReads(condition)]),
    ]),
    ...othersLines(policies.filter(({ effect }) => effect === "forbid")),
  ];
}

function unmetReads({ inputs }: UnmetCondition): readonly string[] {
  return readLines(inputs, "        ");
}

function readLines(inputs: Readonly<Record<string, InputValue>>, indent = "    "): readonly string[] {
  return Object.entries(inputs).map(
    ([name, value]) => `${indent}read ${name}: ${value === undefined ? "absent" : JSON.stringify(value)}`,
  );
}

function nameOf({ effect, id, file, line }: ExplainedPolicy): string {
  return `${effect} ${id} (${file}:${line})`;
}
