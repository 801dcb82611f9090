/** A problem of a policy directory, for the person who has to fix it. */
export interface PolicyProblem {
  /** File or folder, relative to the policy directory, with `/`. */
  readonly file: string;
  /** Line of the file, from 1, if one is known. */
  readonly line?: number;
  readonly message: string;
  /** How to fix it. */
  readonly hint?: string;
}

/** One line: `default/access.cedar:12: message (hint)`. */
export function describeProblem({ file, line, message, hint }: PolicyProblem): string {
  const location = line === undefined ? file : `${file}:${line}`;
  return hint === undefined ? `${location}: ${message}` : `${location}: ${message} (${hint})`;
}

/** Sorted by location, without duplicates. */
export function sortProblems(problems: readonly PolicyProblem[]): readonly PolicyProblem[] {
  const byText = new Map(problems.map((problem) => [describeProblem(problem), problem]));
  return [...byText.values()].sort(
    (a, b) => compareText(a.file, b.file) || (a.line ?? 0) - (b.line ?? 0) || compareText(a.message, b.message),
  );
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
