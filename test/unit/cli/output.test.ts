/** What commands write for a person never steers the person's terminal. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { visibleLine as clientVisibleLine } from "../../../clients/typescript/src/enforce/text.ts";
import { visibleLine } from "../../../src/base/visible-text.ts";
import { print } from "../../../src/cli/frame/terminal.ts";
import { commandsOf, runCommandLine } from "../../../src/cli/run.ts";
import { captureTerminal } from "./terminal.ts";

const hostile = 'a\tb\n{"purpose":"\u001b]0;title\u0007 \u009b31m \u202e\u2028\r\u{e0001}"}';
const shown = 'a\tb\n{"purpose":"\\u001b]0;title\\u0007 \\u009b31m \\u202e\\u2028\\u000d\\udb40\\udc01"}';

test("control and bidirectional characters are shown as JSON escapes; lines and columns stay", () => {
  const { terminal, written } = captureTerminal();
  print({ text: hostile }, false, terminal);
  expect(written).toEqual({ out: `${shown}\n`, err: "", code: 0 });
  expect(JSON.parse(written.out.split("\n")[1] ?? "")).toEqual({
    purpose: "\u001b]0;title\u0007 \u009b31m \u202e\u2028\r\u{e0001}",
  });
});

/** C0 without newline and tab, DEL, C1, and what overrides the direction of text. */
const controls = [...Array(0xa0).keys(), 0x61c, 0x200e, 0x200f, ...range(0x2028, 0x202f), ...range(0x2066, 0x206a)]
  .filter((code) => code < 0x20 || code >= 0x7f)
  .map((code) => String.fromCharCode(code));

function range(from: number, to: number): readonly number[] {
  return Array.from({ length: to - from }, (_, i) => from + i);
}

/** What a terminal would obey, of all that was written; newlines and tabs are the command's own. */
const obeyed = ({ out, err }: { readonly out: string; readonly err: string }) =>
  controls.filter((control) => !"\n\t".includes(control) && (out + err).includes(control));

test("no control character reaches the terminal in a line, a problem or JSON, for any text", () => {
  const text = fc.array(fc.oneof(fc.constantFrom(...controls), fc.string({ unit: "binary", maxLength: 3 })));
  fc.assert(
    fc.property(text, fc.boolean(), fc.boolean(), (parts, isJson, isGood) => {
      const hostile = parts.join("");
      const { terminal, written } = captureTerminal();
      const value = { [hostile]: [hostile] };
      print({ value, text: hostile, problems: isGood ? [] : [hostile] }, isJson, terminal);
      expect(obeyed(written)).toEqual([]);
      if (isJson && hostile.isWellFormed())
        expect(JSON.stringify(JSON.parse(written.out))).toContain(JSON.stringify(hostile));
    }),
    { numRuns: 150 },
  );
});

test("a command line repeated in a refusal cannot control the terminal, on any command", async () => {
  const { terminal } = captureTerminal();
  const names = commandsOf(terminal).commands.flatMap((command) =>
    command.commands.length > 0 ? command.commands.map((inner) => [command.name(), inner.name()]) : [[command.name()]],
  );
  const hostile = controls.join("");
  for (const name of [...names, []])
    for (const argument of [`--${hostile}`, `--json=${hostile}`, hostile]) {
      const { terminal, written } = captureTerminal();
      // Settings of nowhere: no command begins anything.
      await runCommandLine([...name, `--${hostile}`, argument], terminal);
      expect(obeyed(written), name.join(" ")).toEqual([]);
      expect(written.code).not.toBe(0);
    }
});

test("the service's commands and those of local enforcement escape the same", () => {
  for (let code = 0; code <= 0x10ffff; code++) {
    const character = String.fromCodePoint(code);
    if (visibleLine(character) !== clientVisibleLine(character)) expect.unreachable(`U+${code.toString(16)}`);
  }
});
