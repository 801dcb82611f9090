import { nonePermits } from "../../base/vocabulary.ts";
import type { CompiledEngine } from "../../policy/engine/engine.ts";
import { explanationMembers } from "../../policy/engine/explanation.ts";
import { command } from "../frame/command.ts";
import { type Answer, Refusal } from "../frame/terminal.ts";
import { askingCedar, compileDirectory } from "./directory.ts";
import { explanationText } from "./explanation-text.ts";
import { type Question, queryFlags, readQuestion } from "./query.ts";
import {
  lookUpNewestDecision,
  type NewestDecision,
  revisionWarnings,
  withRecordedDecision,
} from "./recorded-decision.ts";

/** Explains an answer. A denial is not a failure of the command. */
export const policyExplainCommand = command({
  name: "policy explain",
  says: "show which policies decide a question, what they say and read, and why the others do not decide",
  arguments: {
    "[directory]": "policy directory (default: SVC_POLICY_DIR; of a recorded decision, what decided it)",
  },
  options: {
    ...queryFlags,
    "--decision <id>": "a recorded decision of --tenant, or of the only tenant with a log",
    "--request-id <id>": "the decision of --tenant that answered the request with this id",
  },
  run(context) {
    const { options, args } = context;
    return askingCedar(async (engineOptions) => {
      if (options.decision !== undefined || options.requestId !== undefined)
        return withRecordedDecision(args[0], context, engineOptions, ({ engine, newest, ...question }) =>
          explanationOf(question, engine, newest),
        );
      const { engine } = await compileDirectory(args[0], context, engineOptions);
      try {
        const question = await readQuestion(options, engine.callerAttributes).catch((error: unknown) => {
          throw error instanceof RangeError ? new Refusal(error.message) : error;
        });
        const newest = await lookUpNewestDecision(context, question.query.caller.tenantId);
        return explanationOf(question, engine, newest);
      } finally {
        engine.release();
      }
    });
  },
});

function explanationOf(
  { query, record }: Question,
  engine: CompiledEngine,
  newest: NewestDecision | string | undefined,
): Answer {
  const explanation = engine.explain(query);
  const warnings = revisionWarnings(engine.revision, query.caller.tenantId, newest);
  const { record_id, request_id, recorded_at, route, outcome } = record ?? {};
  return {
    value: {
      ...explanationMembers(explanation),
      ...(record !== undefined && { record: { record_id, request_id, recorded_at, route, outcome } }),
      warnings,
    },
    text: [
      explanationText(explanation),
      ...(outcome === undefined
        ? []
        : [
            `recorded at ${recorded_at} as ${record_id}: ${outcome.allow === true ? "ALLOW" : "DENY"} ` +
              `under ${outcome.policy_revision}, ${[outcome.reasons].flat().join(", ") || nonePermits}`,
          ]),
      ...warnings.map((warning) => `warning: ${warning}`),
    ].join("\n"),
  };
}
