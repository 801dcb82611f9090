/** A terminal that remembers. */
import type { Terminal } from "../../../src/cli/frame/terminal.ts";

export interface Written {
  out: string;
  err: string;
  code: number;
}

export function captureTerminal() {
  const written: Written = { out: "", err: "", code: 0 };
  const logged: string[] = [];
  const terminal: Terminal = {
    log: (line) => void logged.push(line),
    out(text) {
      written.out += text;
    },
    err(text) {
      written.err += text;
    },
    exitCode(code) {
      written.code = code;
    },
  };
  return { terminal, written, logged };
}
