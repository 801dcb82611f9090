import type { Command } from "commander";
import type { AttributeDeclarations } from "../../base/caller-attributes.ts";
import type { CompiledEngine } from "../../policy/engine/bundle-engine.ts";
import { type CommonOptions, withCommonOptions } from "../options.ts";
import { createOutput, type Output } from "../output.ts";
import type { Terminal } from "../terminal.ts";
import { askingCedar, compileOrReport } from "./directory.ts";
import { explanationMembers, explanationText } from "./explanation-text.ts";
import { lookUpNewestDecision, type NewestDecision, revisionWarnings } from "./in-force.ts";
import { type QueryOptions, type Question, readQuestion, withQueryOptions } from "./query.ts";
import { type RecordedOptions, withRecordedDecision } from "./recorded-decision.ts";

type ExplainOptions = CommonOptions & QueryOptions & RecordedOptions;

/** `policy explain`: why a question is answered as it is. A denial explained is no failure. */
export function addPolicyExplainCommand(policy: Command, terminal: Terminal): void {
  withQueryOptions(withCommonOptions(policy.command("explain")))
    .argument("[directory]", "policy directory (default: SVC_POLICY_DIR; of a recorded decision, what decided it)")
    .option("--decision <id>", "a recorded decision of --tenant")
    .option("--request-id <id>", "the decision of --tenant that answered the request with this id")
    .description("show which policies decide a question, what they say and read, and why the others do not decide")
    .action(async (argument: string | undefined, options: ExplainOptions) => {
      const { output, engineOptions } = askingCedar(createOutput(options.json === true, terminal));
      if (options.decision !== undefined || options.requestId !== undefined) {
        await withRecordedDecision(argument, options, output, engineOptions, ({ engine, newest, ...question }) =>
          printExplanation(question, engine, newest, output),
        );
        return;
      }
      const compiled = await compileOrReport(argument, options, output, engineOptions);
      if (compiled === undefined) return;
      const { engine } = compiled;
      try {
        const question = await questionOrReport(options, engine.callerAttributes, output);
        if (question === undefined) return;
        const newest = await lookUpNewestDecision(options, output, question.query.caller.tenantId);
        printExplanation(question, engine, newest, output);
      } finally {
        engine.release();
      }
    });
}

async function questionOrReport(
  options: QueryOptions,
  declared: AttributeDeclarations,
  output: Output,
): Promise<Question | undefined> {
  try {
    return await readQuestion(options, declared);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return void output.fail([error.message]);
  }
}

function printExplanation(
  { query, record }: Question,
  engine: CompiledEngine,
  newest: NewestDecision | string | undefined,
  output: Output,
): void {
  const explanation = engine.explain(query);
  const warnings = revisionWarnings(engine.revision, query.caller.tenantId, newest);
  const { record_id, request_id, recorded_at, route, outcome } = record ?? {};
  output.succeed(
    {
      ...explanationMembers(explanation),
      ...(record !== undefined && { record: { record_id, request_id, recorded_at, route, outcome } }),
      warnings,
    },
    [
      explanationText(explanation),
      ...(outcome === undefined
        ? []
        : [
            `recorded at ${recorded_at} as ${record_id}: ${outcome.allow === true ? "ALLOW" : "DENY"} ` +
              `under ${outcome.policy_revision}, ${[outcome.reasons].flat().join(", ") || "no policy permits it"}`,
          ]),
      ...warnings.map((warning) => `warning: ${warning}`),
    ].join("\n"),
  );
}
