/** What an audit finds wrong. */

export interface AuditProblem {
  /** Index of the first leaf that is wrong, or that a wrong tile stands for; undefined for the log as a whole. */
  readonly leafIndex?: number;
  readonly message: string;
}

/** Ends a walk with what was found. */
export class Finding extends Error {
  readonly problem: AuditProblem;
  constructor(message: string, leafIndex?: number) {
    super(message);
    this.problem = { message, ...(leafIndex !== undefined && { leafIndex }) };
  }
}

/** Ends the walk where there is a problem. */
export function orThrow(problem: AuditProblem | undefined): void {
  if (problem !== undefined) throw new Finding(problem.message, problem.leafIndex);
}

/** What is read; or the end of the walk, with a problem of the leaf. */
export function orFinding<Value>(read: () => Value, leafIndex: number, problem: string): Value {
  try {
    return read();
  } catch {
    throw new Finding(`leaf ${leafIndex} ${problem}`, leafIndex);
  }
}
