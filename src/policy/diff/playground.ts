/** Tries a copy of a policy directory beside the policies in force: its problems, tests, questions and differences. */
import { attributeProblems } from "../../base/caller.ts";
import { loadPolicyDirectory } from "../check/check.ts";
import { type CompiledEngine, engineOf } from "../engine/engine.ts";
import { reportMembers, runPolicyTests } from "../engine/policy-tests.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import { type FileTexts, fileSystemOf, loadPolicyTests, type PolicySettings } from "../load/directory.ts";
import { answerOf, type PolicyQuery } from "../model/decision.ts";
import { excerptOf, type PolicyProblem } from "../model/problem.ts";
import { parseQueriesText } from "../model/query.ts";
import { compareBundles } from "./compare.ts";

/** Most tests, and most questions. */
export const playgroundLimits = { tests: 1_000, questions: 20 } as const;

export interface Draft {
  readonly files: FileTexts;
  /** One question as in `tests/*.yaml`, or a list; expectations of a test are ignored. Empty for none. */
  readonly questions: string;
}

/**
 * Answers as members of JSON. A draft with problems has these alone.
 *
 * @param further what else to ask both engines, in force and of the draft, for further members
 */
export async function tryDraft(
  inForce: PolicyBundle,
  { files, questions }: Draft,
  settings: PolicySettings,
  further: (engines: readonly [CompiledEngine, CompiledEngine]) => Promise<object>,
): Promise<object> {
  const fileSystem = fileSystemOf(files);
  const loaded = await loadPolicyDirectory("/", fileSystem, settings);
  const { tests, problems: ofTests } = await loadPolicyTests("/", fileSystem);
  const asked = parseQuestions(questions);
  const surplus = tests.length > playgroundLimits.tests ? [tooMany("tests", playgroundLimits.tests)] : [];
  const problems = [...(loaded.problems ?? []), ...ofTests, ...asked.problems, ...surplus];
  if (loaded.bundle === undefined || problems.length > 0)
    return { problems: problems.map(withExcerpt(files, questions)) };
  const options = { isCached: false };
  const [before, engine] = [engineOf(inForce, options), engineOf(loaded.bundle, options)];
  const compared = compareBundles(
    inForce,
    loaded.bundle,
    tests.map(({ question }) => question),
  );
  return {
    policy_revision: engine.revision,
    policies: engine.policies.length,
    tests: reportMembers(runPolicyTests(engine, tests)),
    answers: asked.queries.map((query) => ({
      tenant: query.caller.tenantId,
      action: query.action,
      problems: attributeProblems(engine.callerAttributes, query.caller.attributes),
      in_force: answerOf(before.decide(query)),
      explanation: engine.explain(query),
    })),
    diff: { changes: compared.ways.length, ...compared },
    ...(await further([before, engine])),
  };
}

/** Where problems of questions are. */
const questionsFile = "questions";

function parseQuestions(text: string): {
  readonly queries: readonly PolicyQuery[];
  readonly problems: readonly PolicyProblem[];
} {
  try {
    const queries = parseQueriesText(text);
    const most = playgroundLimits.questions;
    return queries.length > most
      ? { queries: [], problems: [tooMany(questionsFile, most)] }
      : { queries, problems: [] };
  } catch (error) {
    // The parser of YAML throws a ReferenceError for too many aliases.
    if (!(error instanceof RangeError || error instanceof ReferenceError)) throw error;
    return { queries: [], problems: [{ file: questionsFile, message: error.message }] };
  }
}

function tooMany(file: string, most: number): PolicyProblem {
  return { file, message: `has more than ${most}, which is the most that a playground asks` };
}

function withExcerpt(files: FileTexts, questions: string) {
  return (problem: PolicyProblem) => {
    const text = Object.hasOwn(files, problem.file) ? files[problem.file] : questions;
    const excerpt = text === undefined ? undefined : excerptOf(problem, text);
    return { ...problem, ...(excerpt !== undefined && { excerpt }) };
  };
}
