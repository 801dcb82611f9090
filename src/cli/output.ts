/** How commands answer: lines for a person, or one JSON document for a machine. */
import type { Terminal } from "./terminal.ts";

export interface Output {
  /** What the command names is so. `value` is for machines, `text` for people. */
  succeed(value: Readonly<Record<string, unknown>>, text: string): void;
  /** It is not so, for these reasons. `value` joins them for machines, `text` comes before them for people. */
  fail(problems: readonly string[], value?: Readonly<Record<string, unknown>>, text?: string): void;
}

/**
 * With `json`, everything goes to standard output as one object with `ok`, and with `problems` where it is false.
 * Without, problems go to standard error, one a line. Nothing in any of it steers the terminal: records, packs and
 * policies are other people's text. A failure ends the process with 1.
 */
export function createOutput(json: boolean, terminal: Terminal): Output {
  const writeJson = (value: unknown) => terminal.out(`${visibleText(JSON.stringify(value, undefined, 2))}\n`);
  return {
    succeed(value, text) {
      if (json) writeJson({ ok: true, ...value });
      else terminal.out(`${visibleText(text)}\n`);
    },
    fail(problems, value = {}, text) {
      terminal.exitCode(1);
      if (json) return writeJson({ ok: false, ...value, problems });
      if (text !== undefined) terminal.out(`${visibleText(text)}\n`);
      for (const problem of problems) terminal.err(`${visibleText(problem)}\n`);
    },
  };
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
