import { expect, test } from "vitest";
import { indexOfByte, lineAt, splitPolicies } from "../../../src/policy/model/problem.ts";

test.each([
  ["", []],
  [" // only; a comment\n", []],
  ["a; b;", ["a;", "b;"]],
  ["// x; y\n\n a // z;\n b; // after", ["a // z;\n b;"]],
  ['@d("x; // \\"y;") a; c', ['@d("x; // \\"y;") a;', "c"]],
  ["// ends at a carriage return\ra;", ["a;"]],
  ['@d("two\nlines;") a;\n b;', ['@d("two\nlines;") a;', "b;"]],
])("splits %j", (source, texts) => {
  const statements = splitPolicies(source);
  expect(statements.map(({ text }) => text)).toEqual(texts);
  for (const { text, start, line } of statements) {
    expect(source.startsWith(text, start)).toBe(true);
    expect(line).toBe(lineAt(source, start));
  }
});

test("lines are counted from 1, whatever ends them", () => {
  expect(["a", "\nb", "\r\nb", "\rb", "\n\n\nb"].map((text) => lineAt(text, text.length))).toEqual([1, 2, 2, 2, 4]);
});

test("offsets in UTF-8 become UTF-16 indices", () => {
  expect([0, 1, 3, 6, 10].map((byte) => indexOfByte("aé€😀b", byte))).toEqual([0, 1, 2, 3, 5]);
});
