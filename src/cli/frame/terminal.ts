/** Effects of a command on its environment: output, questions, exit code. */
import { createInterface } from "node:readline/promises";
import { messageOf, messageWithCause } from "../../base/errors.ts";
import { visibleText } from "../../base/visible-text.ts";

export interface Terminal {
  /** Writes to standard output. */
  out(text: string): void;
  /** Writes to standard error. */
  err(text: string): void;
  /** Writes a line of the log to standard error; absent if a person watches it. */
  readonly log?: ((line: string) => void) | undefined;
  /** Whether a person watches standard error, so that progress may be shown. */
  readonly isWatched?: boolean;
  /** Asks the person at the terminal, and resolves with their line; absent without a person. */
  readonly ask?: ((question: string) => Promise<string>) | undefined;
  /** Sets the exit code; 0 unless called. */
  exitCode(code: number): void;
  /** Ends the process with that code after all output is written, whatever is still running; absent in tests. */
  leave?(): void;
}

/** The reader of the output may close it (`… | head`): later output is lost, and the command continues. */
for (const stream of [process.stdout, process.stderr])
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
  });

/** The terminal of this process. */
export const processTerminal: Terminal = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  log: process.stderr.isTTY === true ? undefined : (line) => void process.stderr.write(line),
  isWatched: process.stderr.isTTY === true,
  ask: process.stdin.isTTY === true && process.stderr.isTTY === true ? askHere : undefined,
  exitCode: (code) => {
    process.exitCode = code;
  },
  leave: () => void process.stdout.write("", () => process.stderr.write("", () => process.exit())),
};

async function askHere(question: string): Promise<string> {
  // Standard output is for the answer only.
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const closed = new Promise<string>((resolve) => lines.once("close", () => resolve("")));
  try {
    return await Promise.race([lines.question(question), closed]);
  } finally {
    lines.close();
  }
}

/** Shows one line of progress to a person who watches. */
export type Progress = (text: string) => void;

/** To the start of the line, and erase it. */
const eraseLine = "\r\u001b[2K";

/** `done` removes what is shown. */
export function createProgress(terminal: Terminal): { readonly show: Progress; done(): void } {
  let isShown = false;
  return {
    show(text) {
      if (terminal.isWatched === true) terminal.err(eraseLine + text);
      isShown = terminal.isWatched === true;
    },
    done() {
      if (isShown) terminal.err(eraseLine);
      isShown = false;
    },
  };
}

// Output of commands: lines for a person, or one JSON document for a machine.

export interface Answer {
  /** For machines. */
  readonly value?: Readonly<Record<string, unknown>>;
  /** For people. */
  readonly text?: string;
  /** Reasons for failure; success if empty. */
  readonly problems?: readonly string[];
  /** Exit code if there are problems. Default 1. */
  readonly exitCode?: number | undefined;
}

/** Ends a command that cannot do its work, with its problems as the answer. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly answer: Answer;

  constructor(problems: string | readonly string[], more: Omit<Answer, "problems"> = {}) {
    const all = [problems].flat();
    super(all.join("\n"));
    this.answer = { ...more, problems: all };
  }
}

/** The answer of a command that an error ended. */
export function answerOfError(error: unknown): Answer {
  return error instanceof Refusal ? error.answer : { problems: [messageWithCause(error)] };
}

/** Takes steps up to a failure, which must not hide what is done already. Rejects if the first one fails. */
export async function untilFailure<Step>(steps: AsyncIterable<Step>) {
  const done: Step[] = [];
  try {
    for await (const step of steps) done.push(step);
    return { done, failure: undefined };
  } catch (error) {
    if (done.length === 0) throw error;
    return { done, failure: messageWithCause(error) };
  }
}

/** Problems of a command that failed after a part of its work, and goes on with the rest the next time. */
export function unfinished(failure: string | undefined, what: string): readonly string[] {
  return failure === undefined ? [] : [failure, `not all ${what}: give the command again`];
}

/** Does work; turns errors into a Refusal that names the setting. */
export function underSetting<Result>(setting: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw new Refusal(`${setting}: ${messageOf(error)}`);
  }
}

/**
 * With `json`, prints everything to standard output as one object with `ok`, and with `problems` if it is false.
 * Otherwise prints problems to standard error, one per line. Escapes terminal control sequences, because records, packs
 * and policies are other people's text.
 */
export function print({ value = {}, text, problems = [], exitCode = 1 }: Answer, json: boolean, terminal: Terminal) {
  const ok = problems.length === 0;
  if (!ok) terminal.exitCode(exitCode);
  const document = ok ? { ok, ...value } : { ok, ...value, problems };
  if (json) return terminal.out(`${visibleText(JSON.stringify(document, undefined, 2))}\n`);
  if (text !== undefined) terminal.out(`${visibleText(text)}\n`);
  for (const problem of problems) terminal.err(`${visibleText(problem)}\n`);
}
