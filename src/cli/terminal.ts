/** What a command may do to the world that started it: write, and say how it went. */

export interface Terminal {
  /** Writes to standard output. */
  out(text: string): void;
  /** Writes to standard error. */
  err(text: string): void;
  /** Whether a person watches standard error, so that long work may show how far it is. */
  readonly isWatched?: boolean;
  /** Sets the code that the process ends with; 0 unless called. */
  exitCode(code: number): void;
}

/** The terminal of this process. */
export const processTerminal: Terminal = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  isWatched: process.stderr.isTTY === true,
  exitCode: (code) => {
    process.exitCode = code;
  },
};
