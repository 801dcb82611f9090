import type { Terminal } from "./terminal.ts";

/** One line that shows how far long work is, where a person watches; `done` takes it away. */
export interface Progress {
  show(text: string): void;
  done(): void;
}

const toLineStart = "\r";
const eraseLine = "\u001b[2K";

export function createProgress(terminal: Terminal): Progress {
  if (terminal.isWatched !== true) return { show: () => {}, done: () => {} };
  return {
    show: (text) => terminal.err(`${toLineStart}${eraseLine}${text}`),
    done: () => terminal.err(`${toLineStart}${eraseLine}`),
  };
}
