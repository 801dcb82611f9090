/** What a command may do to the world that started it: write, and say how it went. */

export interface Terminal {
  /** Writes to standard output. */
  out(text: string): void;
  /** Writes to standard error. */
  err(text: string): void;
  /** Sets the code that the process ends with; 0 unless called. */
  exitCode(code: number): void;
}

/** The terminal of this process. */
export const processTerminal: Terminal = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  exitCode: (code) => {
    process.exitCode = code;
  },
};
