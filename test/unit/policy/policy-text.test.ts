import { expect, test } from "vitest";
import { excerptOf, indexOfByte, positionAt, splitPolicies } from "../../../src/policy/model/problem.ts";

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
    expect(line).toBe(positionAt(source, start).line);
  }
});

test("lines are counted from 1, with any line end", () => {
  const texts = ["a", "\nb", "\r\nb", "\rb", "\n\n\nb"];
  expect(texts.map((text) => positionAt(text, text.length).line)).toEqual([1, 2, 2, 2, 4]);
});

test.each([
  [{ line: 2, column: 3 }, "2 | \tb c\n  | \t ^"],
  [{ line: 2 }, undefined],
  [{ line: 10, column: 1 }, "10 | end\n   | ^"],
  [{ line: 3, column: 1 }, undefined],
  [{ line: 11, column: 1 }, undefined],
  [{}, undefined],
])("the excerpt of %j", (position, excerpt) => {
  const source = `a\n\tb c\n${"\n".repeat(7)}end`;
  expect(excerptOf({ file: "a.cedar", message: "is wrong", ...position }, source)).toBe(excerpt);
});

test("offsets in UTF-8 become UTF-16 indices", () => {
  expect([0, 1, 3, 6, 10].map((byte) => indexOfByte("aé€😀b", byte))).toEqual([0, 1, 2, 3, 5]);
});
