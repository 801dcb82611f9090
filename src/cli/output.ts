/** How commands answer: lines for a person, or one JSON document for a machine. */
import type { Terminal } from "./terminal.ts";
import { visibleText } from "./visible.ts";

export interface Output {
  /** What the command names is so. `value` is for machines, `text` for people. */
  succeed(value: Readonly<Record<string, unknown>>, text: string): void;
  /** It is not so, for these reasons. `value` joins them for machines, `text` comes before them for people. */
  fail(problems: readonly string[], value?: Readonly<Record<string, unknown>>, text?: string): void;
}

/**
 * With `json`, everything goes to standard output as one object with `ok`, and with `problems` where it is false.
 * Without, problems go to standard error, one a line, and nothing in either steers the terminal: records, packs and
 * policies are other people's text. A failure ends the process with 1.
 */
export function createOutput(json: boolean, terminal: Terminal): Output {
  const writeJson = (value: unknown) => terminal.out(`${JSON.stringify(value, undefined, 2)}\n`);
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
