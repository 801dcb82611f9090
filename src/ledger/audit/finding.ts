/** A problem that an audit found. */

export interface AuditProblem {
  /** Index of the first wrong leaf, or of the first leaf of a wrong tile; undefined for the whole log. */
  readonly leafIndex?: number;
  readonly message: string;
}

/** Ends a walk with a problem. */
export class Finding extends Error {
  readonly problem: AuditProblem;
  constructor(message: string, leafIndex?: number) {
    super(message);
    this.problem = { message, ...(leafIndex !== undefined && { leafIndex }) };
  }
}

/** Ends the walk if there is a problem. */
export function orThrow(problem: AuditProblem | undefined): void {
  if (problem !== undefined) throw new Finding(problem.message, problem.leafIndex);
}

/** Reads, or ends the walk with a problem of the leaf. */
export function orFinding<Value>(read: () => Value, leafIndex: number, problem: string): Value {
  try {
    return read();
  } catch {
    throw new Finding(`leaf ${leafIndex} ${problem}`, leafIndex);
  }
}
