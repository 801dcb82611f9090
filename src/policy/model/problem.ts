/** A problem of a policy directory, for the person who has to fix it. */
export interface PolicyProblem {
  /** File or folder, relative to the policy directory, with `/`. */
  readonly file: string;
  /** Line of the file, from 1, if one is known. */
  readonly line?: number;
  /** Column in that line, from 1, in UTF-16 units, if one is known. */
  readonly column?: number;
  readonly message: string;
  /** How to fix it. */
  readonly hint?: string;
}

/** One line: `default/access.cedar:12: message (hint)`. */
export function describeProblem({ file, line, message, hint }: PolicyProblem): string {
  const location = line === undefined ? file : `${file}:${line}`;
  return hint === undefined ? `${location}: ${message}` : `${location}: ${message} (${hint})`;
}

/**
 * The line of the problem's file, with a caret below its column; undefined if the column is not known.
 * @param source text of the file
 */
export function excerptOf({ line, column }: PolicyProblem, source: string): string | undefined {
  if (line === undefined || column === undefined) return undefined;
  const text = source.split(/\r\n|\r|\n/)[line - 1];
  if (text === undefined || text.trim() === "" || text.length > maxExcerptLength) return undefined;
  const indent = text.slice(0, column - 1).replace(/[^\t]/g, " ");
  return `${line} | ${text}\n${" ".repeat(String(line).length)} | ${indent}^`;
}

/** Longest line that is shown, in UTF-16 units. */
const maxExcerptLength = 200;

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

/**
 * Splits a file at the semicolons outside of strings and comments: Cedar's grammar has none inside a policy. Text after
 * the last one, other than space and comments, is a statement too, so that its parse error is reported. A statement
 * begins with its first annotation or keyword, at the index `start` in UTF-16 units, on `line`, from 1. Cedar's own
 * splitter keeps no locations, and its offsets count UTF-8 bytes.
 */
export function splitPolicies(source: string) {
  const statements: { readonly text: string; readonly start: number; readonly line: number }[] = [];
  let start = 0;
  let line = 1;
  const add = (end: number): void => {
    const part = source.slice(start, end);
    const space = /^(?:\s|\/\/[^\r\n]*)*/.exec(part)?.[0].length ?? 0;
    const text = part.slice(space);
    line += positionAt(part, space).line - 1;
    if (text !== "") statements.push({ text, start: start + space, line });
    line += positionAt(text, text.length).line - 1;
    start = end;
  };
  for (const { 0: token, index } of source.matchAll(/"(?:[^"\\]|\\[\s\S])*"|\/\/[^\r\n]*|;/g)) {
    if (token === ";") add(index + 1);
  }
  add(source.length);
  return statements;
}

/** Line and column, both from 1, of the UTF-16 index. */
export function positionAt(source: string, index: number): { readonly line: number; readonly column: number } {
  const lines = source.slice(0, index).split(/\r\n|\r|\n/);
  return { line: lines.length, column: (lines.at(-1) as string).length + 1 };
}

/** UTF-16 index of a UTF-8 byte offset, which is how Cedar reports locations. */
export function indexOfByte(text: string, byteOffset: number): number {
  return Buffer.from(text, "utf8").subarray(0, byteOffset).toString("utf8").length;
}
