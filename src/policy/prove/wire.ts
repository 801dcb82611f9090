/** What the prover is asked, and what it answers: JSON on its standard input, JSON lines on its standard output. */

/** Which policies apply, by their index. */
export type Formula =
  | { readonly all: readonly Formula[] }
  | { readonly any: readonly Formula[] }
  | { readonly not: Formula }
  | { readonly applies: number };

/** Holds for a request where these policies can all be evaluated, and the formula is met. */
export interface Statement {
  readonly evaluable: readonly number[];
  readonly holds: Formula;
}

/** Whether two statements hold for the same requests with an action, of which a Cedar expression holds. */
export interface ProverQuestion {
  readonly action: string;
  readonly assuming: string;
  readonly statements: readonly [Statement, Statement];
  /** Smaller ones, of which it follows: where the members of each pair hold for the same requests, so do `statements`. */
  readonly sufficient: readonly (readonly [Statement, Statement])[];
}

export interface ProverRequest {
  /** Text of the Cedar schema. */
  readonly schema: string;
  /** Texts of one policy each. */
  readonly policies: readonly string[];
  /** How long the solver may look at one question. */
  readonly timeout_ms: number;
  readonly questions: readonly ProverQuestion[];
}

/** A request in Cedar's JSON forms, with the entities that were made up for it. */
export interface Counterexample {
  readonly principal: unknown;
  readonly context: unknown;
  readonly entities: readonly unknown[];
}

export type ProverAnswer =
  | { readonly equal: true }
  | { readonly counterexample: Counterexample }
  | { readonly undecided: string };

/** What proves, and an answer for each question, in their order; or, in one line, what is missing and how to get it. */
export type ProverOutcome =
  | { readonly solver: string; readonly answers: readonly ProverAnswer[]; readonly missing?: never }
  | { readonly missing: string };

/** What proves: the first line. */
export interface ProverHead {
  readonly cedar: string;
  readonly solver?: string;
  readonly problem?: string;
}

/** Returns undefined for what is no such line. */
export function parseHead(line: string): ProverHead | undefined {
  const { cedar, solver, problem } = parseObject(line) ?? {};
  if (typeof cedar !== "string") return undefined;
  if (typeof solver === "string") return { cedar, solver };
  return typeof problem === "string" ? { cedar, problem } : undefined;
}

/** Returns undefined for what is no answer: nothing that is not understood is ever a proof. */
export function parseAnswer(line: string): ProverAnswer | undefined {
  const answer = parseObject(line) ?? {};
  if (Object.keys(answer).length !== 1) return undefined;
  const { equal, undecided, counterexample } = answer;
  if (equal === true) return { equal };
  if (typeof undecided === "string") return { undecided };
  const { principal, context, entities } = asObject(counterexample) ?? {};
  return Array.isArray(entities) ? { counterexample: { principal, context, entities } } : undefined;
}

function parseObject(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return asObject(JSON.parse(line));
  } catch {
    return undefined;
  }
}

/** Undefined for what is no object. */
export function asObject(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : undefined;
}
