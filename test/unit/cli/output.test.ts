/** What commands write for a person never steers the person's terminal. */
import { expect, test } from "vitest";
import { createOutput } from "../../../src/cli/output.ts";
import { captureTerminal } from "./terminal.ts";

const hostile = 'a\tb\n{"purpose":"\u001b]0;title\u0007 \u009b31m \u202e\u2028\r\u{e0001}"}';
const shown = 'a\tb\n{"purpose":"\\u001b]0;title\\u0007 \\u009b31m \\u202e\\u2028\\u000d\\udb40\\udc01"}';

test("what controls a terminal or turns text is shown as JSON escapes it; lines and columns stay", () => {
  const { terminal, written } = captureTerminal();
  createOutput(false, terminal).succeed({}, hostile);
  expect(written).toEqual({ out: `${shown}\n`, err: "", code: 0 });
  expect(JSON.parse(written.out.split("\n")[1] ?? "")).toEqual({
    purpose: "\u001b]0;title\u0007 \u009b31m \u202e\u2028\r\u{e0001}",
  });
});

test("problems, and the text before them, are shown the same way", () => {
  const { terminal, written } = captureTerminal();
  createOutput(false, terminal).fail([hostile, "b"], {}, hostile);
  expect(written).toEqual({ out: `${shown}\n`, err: `${shown}\nb\n`, code: 1 });
});

test("machines get the values", () => {
  const { terminal, written } = captureTerminal();
  createOutput(true, terminal).fail([hostile], { hostile });
  expect(JSON.parse(written.out)).toEqual({ ok: false, hostile, problems: [hostile] });
});
