/** How commands answer: lines for a person, or one JSON document for a machine. */
import type { Terminal } from "./terminal.ts";

export interface Answer {
  /** For machines. */
  readonly value?: Readonly<Record<string, unknown>>;
  /** For people. */
  readonly text?: string;
  /** Why what the command names is not so; it is so without any. */
  readonly problems?: readonly string[];
  /** What the process ends with if there are problems. Default 1. */
  readonly exitCode?: number | undefined;
}

/** Ends a command that cannot do what it names, with its problems as the answer. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly answer: Answer;

  constructor(problems: string | readonly string[], more: Omit<Answer, "problems"> = {}) {
    const all = [problems].flat();
    super(all.join("\n"));
    this.answer = { ...more, problems: all };
  }
}

/** Does the work; what it throws becomes a Refusal under the name of the setting that it is about. */
export function underSetting<Result>(setting: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw new Refusal(`${setting}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/**
 * With `json`, everything goes to standard output as one object with `ok`, and with `problems` where it is false.
 * Without, problems go to standard error, one a line. Nothing in any of it steers the terminal: records, packs and
 * policies are other people's text.
 */
export function print({ value = {}, text, problems = [], exitCode = 1 }: Answer, json: boolean, terminal: Terminal) {
  const ok = problems.length === 0;
  if (!ok) terminal.exitCode(exitCode);
  const document = ok ? { ok, ...value } : { ok, ...value, problems };
  if (json) return terminal.out(`${visibleText(JSON.stringify(document, undefined, 2))}\n`);
  if (text !== undefined) terminal.out(`${visibleText(text)}\n`);
  for (const problem of problems) terminal.err(`${visibleText(problem)}\n`);
}

/** Controls, what turns the direction of text, separators that end a line for terminals, and halves of characters. */
const unseen = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * One line: whatever would steer a terminal, end the line or show it in another order is written as JSON escapes it
 * (RFC 8259 §7), so that JSON within it stays the same JSON.
 */
export function visibleLine(line: string): string {
  return line.replace(unseen, escaped);
}

/** The same for several lines: newlines and tabs stay what they are. */
export function visibleText(text: string): string {
  return text.replace(unseen, (character) =>
    character === "\n" || character === "\t" ? character : escaped(character),
  );
}

function escaped(character: string): string {
  return Array.from({ length: character.length }, (_, i) => unitEscape(character.charCodeAt(i))).join("");
}

function unitEscape(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, "0")}`;
}
