import type { Command } from "commander";
import type { AttributeDeclarations } from "../../base/caller-attributes.ts";
import type { PolicyQuery } from "../../policy/engine/decision.ts";
import type { ExplainedLayer, ExplainedPolicy, Explanation } from "../../policy/engine/explanation.ts";
import { describeGuidance } from "../../policy/guidance/guidance.ts";
import { type CommonOptions, withCommonOptions } from "../options.ts";
import { createOutput, type Output } from "../output.ts";
import type { Terminal } from "../terminal.ts";
import { compileOrReport } from "./directory.ts";
import { type QueryOptions, readQuery, withQueryOptions } from "./query.ts";

/** `policy explain`: why a policy directory answers a question as it does. A denial explained is no failure. */
export function addPolicyExplainCommand(policy: Command, terminal: Terminal): void {
  withQueryOptions(withCommonOptions(policy.command("explain")))
    .argument("[directory]", "policy directory (default: SVC_POLICY_DIR)")
    .description("show which policies decide a question, what they say, and the inputs they read")
    .action(async (argument: string | undefined, options: CommonOptions & QueryOptions) => {
      const output = createOutput(options.json === true, terminal);
      const compiled = await compileOrReport(argument, options, output);
      if (compiled === undefined) return;
      try {
        const query = await queryOrReport(options, compiled.engine.callerAttributes, output);
        if (query === undefined) return;
        const explanation = compiled.engine.explain(query);
        output.succeed(explanationMembers(explanation), explanationText(explanation));
      } finally {
        compiled.engine.release();
      }
    });
}

async function queryOrReport(
  options: QueryOptions,
  declared: AttributeDeclarations,
  output: Output,
): Promise<PolicyQuery | undefined> {
  try {
    return await readQuery(options, declared);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return void output.fail([error.message]);
  }
}

function explanationMembers({ decision, layers }: Explanation) {
  return {
    allow: decision.allow,
    policy_revision: decision.policyRevision,
    reasons: decision.reasons,
    inputs: decision.inputs,
    guidance: describeGuidance(decision.guidance),
    layers: layers.map(({ policies, ...layer }) => ({
      ...layer,
      policies: policies.map(({ guidance: { scalars, lists }, inputs, ...rest }) => ({
        ...rest,
        facts: Object.fromEntries(Object.entries(inputs).map(([name, value]) => [name, value ?? null])),
        annotations: { ...scalars, ...lists },
      })),
    })),
  };
}

function explanationText({ decision, layers }: Explanation): string {
  const guidance = Object.entries(describeGuidance(decision.guidance));
  return [
    `${decision.allow ? "ALLOW" : "DENY"} under ${decision.policyRevision}`,
    `because of: ${decision.reasons.join(", ") || "no policy permits it"}`,
    ...layers.flatMap(layerLines),
    "guidance:",
    ...guidance.map(([name, value]) => `  ${name}: ${[value].flat().join(", ")}`),
  ].join("\n");
}

function layerLines({ layer, set, outcome, policies }: ExplainedLayer): readonly string[] {
  const others = policies.filter(({ decided }) => !decided);
  return [
    `${layer} (set ${set}): ${outcome}`,
    ...policies.filter(({ decided }) => decided).flatMap(policyLines),
    ...(others.length === 0 ? [] : [`  did not decide: ${others.map(({ id }) => id).join(", ")}`]),
  ];
}

function policyLines(policy: ExplainedPolicy): readonly string[] {
  const { id, file, line, effect, description, guidance, inputs } = policy;
  return [
    `  ${effect} ${id} (${file}:${line})${description === undefined ? "" : `: ${description}`}`,
    ...Object.entries({ ...guidance.scalars, ...guidance.lists }).map(
      ([name, value]) => `    says ${name}: ${[value].flat().join(", ")}`,
    ),
    ...Object.entries(inputs).map(
      ([name, value]) => `    read ${name}: ${value === undefined ? "absent" : JSON.stringify(value)}`,
    ),
  ];
}
