/** Judges the policies of one set: syntax, annotations, ids, types. */
import {
  type DetailedError,
  type Effect,
  type PolicyJson,
  policySetTextToParts,
  policyToJson,
  validate,
} from "@cedar-policy/cedar-wasm/nodejs";
import { type PolicyGuidance, parseGuidance } from "./annotations.ts";
import type { PolicyBundle } from "./bundle.ts";
import type { PolicyAction } from "./decision.ts";
import { indexOfByte, lineAt, type PolicyStatement, splitPolicies } from "./policy-text.ts";
import { foreignPrincipalIds, isUnconditional, scopeActions } from "./policy-tree.ts";
import type { PolicyProblem } from "./problem.ts";
import { reservedIds } from "./reasons.ts";

/** A policy that parsed. */
export interface CheckedPolicy {
  /** Value of `@id`; unique in the set. */
  readonly id: string;
  /** File and line where it starts. */
  readonly file: string;
  readonly line: number;
  readonly text: string;
  readonly tree: PolicyJson;
  readonly effect: Effect;
  /** Actions that its scope admits. */
  readonly actions: ReadonlySet<PolicyAction>;
  /** Whether it decides every question about its actions. */
  readonly unconditional: boolean;
  readonly description?: string;
  readonly guidance: PolicyGuidance;
}

const idPattern = /^[a-z0-9][a-z0-9._-]{0,127}$/;

/** What a part of a set holds. Policies with problems may be missing. */
export interface CheckedPart {
  readonly policies: readonly CheckedPolicy[];
  readonly problems: readonly PolicyProblem[];
}

/** Checks the files of a set, given by name. */
export function checkSet(name: string, files: Readonly<Record<string, string>>, bundle: PolicyBundle): CheckedPart {
  const policies = new Map<string, CheckedPolicy>();
  const problems: PolicyProblem[] = [];
  for (const [file, source] of Object.entries(files).sort()) {
    const part = checkFile(`${name}/${file}`, source, bundle);
    problems.push(...part.problems);
    for (const policy of part.policies) {
      const first = policies.get(policy.id);
      if (first === undefined) policies.set(policy.id, policy);
      else {
        const message = `the id ${policy.id} is taken by line ${first.line} of ${first.file}`;
        problems.push({ file: policy.file, line: policy.line, message, hint: "ids are unique within a set" });
      }
    }
  }
  problems.push(...typeProblems([...policies.values()], bundle.schema));
  return { policies: [...policies.values()], problems };
}

function checkFile(file: string, source: string, bundle: PolicyBundle): CheckedPart {
  const statements = splitPolicies(source);
  const parts = statements.map((statement) => checkStatement(file, source, statement, bundle));
  const problems = parts.flatMap((part) => part.problems);
  if (problems.length === 0) {
    // Cedar's own reading of the whole file must agree with ours of its parts: no policy may be lost between them.
    const whole = policySetTextToParts(source);
    if (whole.type === "failure" || whole.policies.length !== statements.length) {
      problems.push({
        file,
        message: "cannot be told apart into policies",
        hint: "give each policy a file of its own",
      });
    }
  }
  return { policies: parts.flatMap((part) => part.policies), problems };
}

function checkStatement(file: string, source: string, statement: PolicyStatement, bundle: PolicyBundle): CheckedPart {
  const parsed = policyToJson(statement.text);
  if (parsed.type === "failure") {
    const problems = parsed.errors.map((error) => syntaxProblem(file, source, statement, error));
    return { policies: [], problems };
  }
  const { line } = statement;
  const tree = parsed.json;
  // An annotation that is written without a value has null, whatever its type says.
  const annotations = (tree.annotations ?? {}) as Readonly<Record<string, string | null>>;
  const { id, description } = annotations;
  const { guidance, problems: misguided } = parseGuidance(tree.effect, annotations, bundle);
  const problems: PolicyProblem[] = [
    ...misguided.map((message) => ({ file, line, message })),
    ...foreignPrincipalIds(tree).map((message) => {
      return { file, line, message, hint: 'write Principal::"<tenant>/<principal>"' };
    }),
  ];
  if (typeof id !== "string" || !idPattern.test(id) || reservedIds.includes(id)) {
    const message = typeof id === "string" ? `@id(${JSON.stringify(id)}) cannot be used` : "the policy has no @id";
    const hint = `lowercase letters, digits, and . _ -; not ${reservedIds.join(", ")}`;
    return { policies: [], problems: [...problems, { file, line, message, hint }] };
  }
  const policy: CheckedPolicy = {
    id,
    file,
    line,
    text: statement.text,
    tree,
    effect: tree.effect,
    actions: scopeActions(tree),
    unconditional: isUnconditional(tree),
    ...(typeof description === "string" && { description }),
    guidance,
  };
  return { policies: [policy], problems };
}

function syntaxProblem(file: string, source: string, statement: PolicyStatement, error: DetailedError): PolicyProblem {
  const hint = error.help ?? error.sourceLocations?.find(({ label }) => label !== null)?.label;
  return {
    file,
    line: lineOf(error, statement, source),
    message: error.message.replace(/^failed to parse policy from string: /, ""),
    ...(typeof hint === "string" && { hint }),
  };
}

/** Type errors; and warnings too: a policy that can never apply, or text made to look like other text, is a mistake. */
function typeProblems(policies: readonly CheckedPolicy[], schema: string): readonly PolicyProblem[] {
  const byId = new Map(policies.map((policy) => [policy.id, policy]));
  const answer = validate({
    schema,
    policies: { staticPolicies: Object.fromEntries(policies.map(({ id, text }) => [id, text])) },
    validationSettings: { mode: "strict" },
  });
  if (answer.type === "failure") return answer.errors.map(({ message }) => ({ file: "schema.cedarschema", message }));
  return [...answer.validationErrors, ...answer.validationWarnings].map(({ policyId, error }): PolicyProblem => {
    const policy = byId.get(policyId) as CheckedPolicy;
    const within = lineOf(error, { text: policy.text, start: 0 }, policy.text);
    const hint = error.help?.replace(/^for policy `[^`]*`, /, "");
    return {
      file: policy.file,
      line: policy.line + within - 1,
      // Cedar says the same once for each action.
      message: `${policyId}: ${error.message.replace(/^for policy `[^`]*`[,:] /, "").replace(/ for Action::"\w+"/, "")}`,
      ...(hint !== undefined && { hint }),
    };
  });
}

function lineOf(error: DetailedError, statement: Omit<PolicyStatement, "line">, source: string): number {
  const byte = error.sourceLocations?.[0]?.start ?? 0;
  return lineAt(source, statement.start + indexOfByte(statement.text, byte));
}
