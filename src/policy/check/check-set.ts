/** Checks the policies of one set: each by itself, their ids, their types. */
import type { DetailedError, Effect, TypeAndId, ValidationAnswer } from "@cedar-policy/cedar-wasm/nodejs";
import type { EntityUse } from "../evaluate/entity-request.ts";
import { programOf } from "../evaluate/program.ts";
import { type AnnotatedGuidance, type AnnotationRules, parseGuidance } from "../guidance/annotations.ts";
import { inputsOfObligations } from "../guidance/obligations.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import { cedar } from "../model/cedar.ts";
import { type PolicyAction, reservedIds } from "../model/decision.ts";
import { type InputCatalogue, inputCatalogue } from "../model/inputs.ts";
import { indexOfByte, type PolicyProblem, positionAt, splitPolicies } from "../model/problem.ts";
import { countsOnBehalfOf } from "./delegation.ts";
import {
  entitiesNamed,
  entityUse,
  foreignPrincipalIds,
  inputsRead,
  isUnconditional,
  joinInputs,
  scopeActions,
} from "./reads.ts";

/** Checks sets of one bundle. Each distinct text is parsed once for all sets. */
export class SetChecker {
  readonly #read: (text: string) => PolicyReading;
  readonly #count: (source: string) => number | undefined;
  readonly #schema: string;
  /** Texts without type errors: Cedar checks each policy by itself, so they have none in any set. */
  readonly #wellTyped = new Set<string>();

  constructor(bundle: PolicyBundle) {
    const catalogue = inputCatalogue(bundle);
    this.#read = remembering((text) => readPolicy(text, bundle, catalogue));
    this.#count = remembering(countPolicies);
    this.#schema = bundle.schema;
  }

  /** Checks the files of a set, given by name. Policies with problems may be missing. */
  check(name: string, files: Readonly<Record<string, string>>) {
    const policies = new Map<string, CheckedPolicy>();
    const problems: PolicyProblem[] = [];
    for (const [file, source] of Object.entries(files).sort()) {
      const part = this.#checkFile(`${name}/${file}`, source);
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
    problems.push(...this.#typeProblems([...policies.values()]));
    return { policies: [...policies.values()], problems };
  }

  #checkFile(file: string, source: string) {
    const statements = splitPolicies(source);
    const readings = statements.map((statement) => ({ ...statement, ...this.#read(statement.text) }));
    const problems = readings.flatMap(({ start, line, problems: ofPolicy }) =>
      ofPolicy.map(({ index, ...problem }): PolicyProblem => {
        return { file, ...(index === undefined ? { line } : positionAt(source, start + index)), ...problem };
      }),
    );
    // Cedar's parse of the whole file must find as many policies as our split, so that none is lost.
    if (problems.length === 0 && this.#count(source) !== statements.length) {
      problems.push({
        file,
        message: "cannot be split into policies",
        hint: "give each policy a file of its own",
      });
    }
    const policies = readings.flatMap(({ policy, line, text }) => (policy ? [{ ...policy, file, line, text }] : []));
    return { policies, problems };
  }

  /** Type errors, and warnings too: a policy that can never apply, or text made to look like other text, is a mistake. */
  #typeProblems(policies: readonly CheckedPolicy[]): readonly PolicyProblem[] {
    const fresh = policies.filter(({ text }) => !this.#wellTyped.has(text));
    if (fresh.length === 0) return [];
    // Joined into one text they cost Cedar half as much, but then errors name neither policies nor lines.
    const together = validated(this.#schema, fresh.map(({ text }) => text).join("\n"));
    if (together.type === "failure" || complaints(together).length > 0) return typeProblems(fresh, this.#schema);
    for (const { text } of fresh) this.#wellTyped.add(text);
    return [];
  }
}

/** The function, which is called once for each text. */
export function remembering<T>(make: (text: string) => T): (text: string) => T {
  const known = new Map<string, T>();
  return (text) => {
    const made = known.has(text) ? (known.get(text) as T) : make(text);
    known.set(text, made);
    return made;
  };
}

/** Policies that Cedar finds in the file; undefined if it does not parse. */
function countPolicies(source: string): number | undefined {
  const whole = cedar().policySetTextToParts(source);
  return whole.type === "failure" ? undefined : whole.policies.length;
}

function validated(schema: string, staticPolicies: string | Record<string, string>): ValidationAnswer {
  return cedar().validate({ schema, policies: { staticPolicies }, validationSettings: { mode: "strict" } });
}

function complaints(answer: Extract<ValidationAnswer, { readonly type: "success" }>) {
  return [...answer.validationErrors, ...answer.validationWarnings];
}

function typeProblems(policies: readonly CheckedPolicy[], schema: string): readonly PolicyProblem[] {
  const byId = new Map(policies.map((policy) => [policy.id, policy]));
  const answer = validated(schema, Object.fromEntries(policies.map(({ id, text }) => [id, text])));
  if (answer.type === "failure") return answer.errors.map(({ message }) => ({ file: "schema.cedarschema", message }));
  return complaints(answer).map(({ policyId, error }): PolicyProblem => {
    const policy = byId.get(policyId) as CheckedPolicy;
    const help = error.help?.replace(/^for policy `[^`]*`, /, "");
    // Cedar calls any entity `e`; there is one of this type.
    const hint = error.message.includes("entity type `Principal`") ? help?.replace("`e has ", "`principal has ") : help;
    return {
      file: policy.file,
      ...positionWithin(error, policy),
      // Cedar repeats the message for each action.
      message: `${policyId}: ${error.message.replace(/^for policy `[^`]*`[,:] /, "").replace(/ for Action::"\w+"/, "")}`,
      ...(hint !== undefined && { hint }),
    };
  });
}

/** The column is known after the first line of the policy, which may begin anywhere. */
function positionWithin(error: DetailedError, policy: CheckedPolicy) {
  const start = error.sourceLocations?.[0]?.start;
  const { line, column } = positionAt(policy.text, indexOfByte(policy.text, start ?? 0));
  return { line: policy.line + line - 1, ...(start !== undefined && line > 1 && { column }) };
}

// Checks a policy by itself: syntax, annotations, id.

/** What a policy's text says. Cedar's tree is not kept, because it is ten times the size of this. */
interface PolicyContent {
  /** Value of `@id`. */
  readonly id: string;
  readonly effect: Effect;
  /** Actions that its scope allows. */
  readonly actions: ReadonlySet<PolicyAction>;
  /** Whether it decides every question about its actions. */
  readonly unconditional: boolean;
  /** Whether it counts in questions about another subject than the caller; see `delegation.ts`. */
  readonly countsOnBehalfOf: boolean;
  readonly description?: string;
  readonly guidance: AnnotatedGuidance;
  /** Names of the inputs that it reads, in conditions (see `reads.ts`) and for its obligations. */
  readonly reads: readonly string[];
  /** Its use of the organisation's entities, and the entities that it names. */
  readonly entities: EntityUse & { readonly named: readonly TypeAndId[] };
  /** JSON of its `Program`. */
  readonly program: string;
}

/** A parsed policy with its location. Its id is unique in the set. */
export interface CheckedPolicy extends PolicyContent {
  /** File, and line of its first token. */
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

interface PolicyReading {
  /** May be absent if there are problems. */
  readonly policy?: PolicyContent;
  /** Each of the policy, or of what is at the index of its text. */
  readonly problems: readonly (Pick<PolicyProblem, "message" | "hint"> & { readonly index?: number })[];
}

const idPattern = /^[a-z0-9][a-z0-9._-]{0,127}$/;

/** Reads the text of one policy. */
function readPolicy(text: string, rules: AnnotationRules, catalogue: InputCatalogue): PolicyReading {
  const deepAt = tooDeepAt(text);
  if (deepAt !== undefined) {
    const hint = 'write alternatives as a set, ["a", "b"].contains(…), or as separate policies';
    return { problems: [{ index: deepAt, message: "the policy is nested too deeply", hint }] };
  }
  const parsed = cedar().policyToJson(text);
  if (parsed.type === "failure") return { problems: parsed.errors.map((error) => syntaxProblem(text, error)) };
  const { effect, annotations: given = {} } = parsed.json;
  // An annotation without a value is null, although its type excludes that.
  const annotations = given as Readonly<Record<string, string | null>>;
  const { id, description } = annotations;
  const program = programOf(parsed.json);
  const { guidance, problems: misguided } = parseGuidance(effect, annotations, rules, catalogue);
  const problems = [
    ...misguided.map((message) => ({ message })),
    ...foreignPrincipalIds(program).map((message) => ({ message, hint: 'write Principal::"<tenant>/<principal>"' })),
  ];
  if (typeof id !== "string" || !idPattern.test(id) || reservedIds.some((reserved) => reserved === id)) {
    const message = typeof id === "string" ? `@id(${JSON.stringify(id)}) cannot be used` : "the policy has no @id";
    const hint = `lowercase letters, digits, and . _ -; not ${reservedIds.join(", ")}`;
    return { problems: [...problems, { message, hint }] };
  }
  const policy = {
    id,
    effect,
    actions: scopeActions(program),
    unconditional: isUnconditional(program),
    countsOnBehalfOf: countsOnBehalfOf(program),
    ...(typeof description === "string" && { description }),
    guidance,
    reads: joinInputs([inputsRead(program, catalogue), inputsOfObligations(guidance.obligations ?? [])], catalogue),
    entities: { ...entityUse(program, catalogue), named: entitiesNamed(program) },
    program: JSON.stringify(program),
  };
  return { policy, problems };
}

function syntaxProblem(text: string, { message, help, sourceLocations: at }: DetailedError) {
  const hint = help ?? at?.find(({ label }) => label !== null)?.label;
  return {
    index: indexOfByte(text, at?.[0]?.start ?? 0),
    message: message.replace(/^failed to parse policy from string: /, ""),
    ...(typeof hint === "string" && { hint }),
  };
}

// How deeply a policy is nested, determined before Cedar parses it.

/** Most nested brackets; Cedar's parser recurses several times for each. */
const maxBrackets = 32;
/** Most nested brackets and operators; Cedar's evaluator recurses once for each. */
const maxNesting = 200;

const token = /"(?:[^"\\]|\\[\s\S])*"|\/\/[^\r\n]*|[([{]|[)\]}]|&&|\|\||[-+*!.,]|\b(?:if|then|else|when|unless)\b/g;

/** Precedence of operators, the loosest first. */
const precedence: Readonly<Record<string, number>> = {
  ...{ if: 0, "||": 1, "&&": 2 },
  ...{ "+": 3, "-": 3, "*": 3, "!": 3, ".": 4 },
};

/**
 * Index of the text at which a policy exceeds the nesting limits; undefined if it never does. The engine's stack is
 * small and cannot be guarded from here: an overflow breaks the engine for every later question.
 */
export function tooDeepAt(text: string): number | undefined {
  /** For each open bracket, how many operators of each precedence are open in it. */
  const levels = [closed()];
  let within = 0;
  let clauses = 0;
  for (const { 0: found, index } of text.matchAll(token)) {
    const level = levels.at(-1) as number[];
    if ("([{".includes(found)) {
      within += depthOf(level);
      levels.push(closed());
    } else if (")]}".includes(found)) {
      if (levels.length === 1) continue;
      levels.pop();
      within -= depthOf(levels.at(-1) as number[]);
    } else if (found === "when" || found === "unless") {
      // Cedar joins clauses like `&&`, each nested in the others. Elsewhere these are names.
      if (levels.length === 1 && clauses++ > 0) note(level, "&&");
    } else note(level, found);
    const brackets = levels.length - 1;
    if (brackets > maxBrackets || within + brackets + depthOf(levels.at(-1) as number[]) > maxNesting) return index;
  }
  return undefined;
}

function closed(): number[] {
  return [0, 0, 0, 0, 0];
}

function depthOf(level: readonly number[]): number {
  return level.reduce((sum, open) => sum + open, 0);
}

/** An operator ends those that bind more tightly. */
function note(level: number[], found: string): void {
  const at = precedence[found];
  if (at !== undefined) level.fill((level[at] ?? 0) + 1, at, at + 1).fill(0, at + 1);
  else if (found === "then" || found === "else") level.fill(0, 1);
  else if (found === ",") level.fill(0);
}
