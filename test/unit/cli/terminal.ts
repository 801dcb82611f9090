/** A terminal that remembers. */
import type { Terminal } from "../../../src/cli/terminal.ts";

export interface Written {
  out: string;
  err: string;
  code: number;
}

export function captureTerminal(): { readonly terminal: Terminal; readonly written: Written } {
  const written: Written = { out: "", err: "", code: 0 };
  const terminal: Terminal = {
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
  return { terminal, written };
}
