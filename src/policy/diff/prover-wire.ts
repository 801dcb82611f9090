/** Protocol of the prover: JSON on its standard input, JSON lines on its standard output. */

/** A formula over policies, given by index, that apply. */
export type Formula =
  | { readonly all: readonly Formula[] }
  | { readonly any: readonly Formula[] }
  | { readonly not: Formula }
  | { readonly applies: number };

/** Holds for a request if these policies can all be evaluated, and the formula is true. */
export interface Statement {
  readonly evaluable: readonly number[];
  readonly holds: Formula;
}

/** Whether two statements hold for the same requests with an action, under the assumption of a Cedar expression. */
export interface ProverQuestion {
  readonly action: string;
  readonly assuming: string;
  readonly statements: readonly [Statement, Statement];
  /** Smaller pairs that imply the question: if the members of each hold for the same requests, so do `statements`. */
  readonly sufficient: readonly (readonly [Statement, Statement])[];
}

export interface ProverRequest {
  readonly schema: string;
  readonly policies: readonly string[];
  /** How long the solver may work on one question. */
  readonly timeout_ms: number;
  readonly questions: readonly ProverQuestion[];
}

/** A request in Cedar's JSON forms, with made-up entities. */
export interface Counterexample {
  readonly principal: unknown;
  readonly context: unknown;
  readonly entities: readonly unknown[];
}

export type ProverAnswer =
  | { readonly equal: true }
  | { readonly counterexample: Counterexample }
  | { readonly undecided: string };

/** The prover and an answer for each question, in order; or one line with what is missing and how to get it. */
export type ProverOutcome =
  | { readonly solver: string; readonly answers: readonly ProverAnswer[]; readonly missing?: never }
  | { readonly missing: string };

/** The first line: the prover's versions. */
export interface ProverHead {
  readonly cedar: string;
  readonly solver?: string;
  readonly problem?: string;
}

/** Undefined if the line is not a head. */
export function parseHead(line: string): ProverHead | undefined {
  const { cedar, solver, problem } = parseObject(line) ?? {};
  if (typeof cedar !== "string") return undefined;
  if (typeof solver === "string") return { cedar, solver };
  return typeof problem === "string" ? { cedar, problem } : undefined;
}

/** Undefined if the line is not an answer: an unrecognized line is never a proof. */
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

export function asObject(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : undefined;
}
