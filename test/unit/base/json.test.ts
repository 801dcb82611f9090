/** Reading JSON as it was written, which V8's reader does not always do: https://github.com/nodejs/node/issues/63785. */
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { parseJson as parseInClient } from "../../../clients/typescript/src/json.ts";
import { hasRepeatedMember, parseJson } from "../../../src/base/json.ts";

/** V8 takes a name that begins like the only one which followed so far for that one. */
beforeAll(() => {
  for (const before of ["", '"a":1,', '"b":1,']) JSON.parse(`{${before}"\\\\":1}`);
});

const character = fc.constantFrom("a", "b", "\\", '"', "\n", "é", "\u0001", "/", "{", ":");
const text = fc.oneof({ weight: 4, arbitrary: fc.string({ unit: character, maxLength: 3 }) }, fc.constant("__proto__"));
/** The text of a string, with some characters escaped that need no escape. */
const quoted = (value: string) =>
  fc.infiniteStream(fc.nat(3)).map((die) => {
    const escaped = Array.from(value, (unit) =>
      die.next().value === 0
        ? `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`
        : JSON.stringify(unit).slice(1, -1),
    );
    return `"${escaped.join("")}"`;
  });
type Case = readonly [text: string, value: unknown, hasRepeated: boolean];
const leaf = fc.oneof(
  text.chain((value): fc.Arbitrary<Case> => quoted(value).map((written) => [written, value, false])),
  fc.constantFrom<Case>(["12", 12, false], ["null", null, false], ["[ ]", [], false]),
);
const { value } = fc.letrec<{ value: Case }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    leaf,
    fc
      .array(tie("value"), { maxLength: 3 })
      .map(
        (items): Case => [
          `[${items.map(([written]) => written).join(" , ")}]`,
          items.map(([, item]) => item),
          items.some(([, , hasRepeated]) => hasRepeated),
        ],
      ),
    fc
      .array(
        text.chain((name) => fc.tuple(fc.constant(name), quoted(name), tie("value"))),
        { maxLength: 4 },
      )
      .map(
        (members): Case => [
          `{${members.map(([, name, [written]]) => `${name} :${written}`).join(",")}}`,
          Object.fromEntries(members.map(([name, , [, member]]) => [name, member])),
          new Set(members.map(([name]) => name)).size < members.length || members.some(([, , [, , inner]]) => inner),
        ],
      ),
  ),
}));

describe.each([
  ["service", parseJson],
  ["client", parseInClient],
])("%s", (_, parse) => {
  test("a name with an escape is read as it is written", () => {
    for (const [text, name] of [
      ['"\\\\"', "\\"],
      ['"\\""', '"'],
      ['"\\u0062"', "b"],
    ] as const)
      expect(parse(`{"first":1,${text}:2}`)).toEqual({ first: 1, [name]: 2 });
  });

  test("every value is read as it is written", () => {
    fc.assert(
      fc.property(value, ([written, expected]) => {
        const actual = parse(written);
        expect(actual).toEqual(expected);
        expect(JSON.stringify(actual)).toBe(JSON.stringify(expected));
      }),
      { numRuns: 2000 },
    );
  });

  test.each(["", "{", '{"\\x":1}', '{"a\\":1}', '{"\\u0061":01}'])("%s is refused", (written) => {
    expect(() => parse(written)).toThrow(SyntaxError);
  });
});

test("a member is repeated if an object has two of its name, however they are written", () => {
  for (const [text, expected] of [
    ['{"a":{"b":1,"\\u0062":2}}', true],
    ['{"a":[{"a":":"}],"b":"a"}', false],
  ] as const)
    expect(hasRepeatedMember(text, parseJson(text))).toBe(expected);
  fc.assert(
    fc.property(value, ([written, , hasRepeated]) => {
      // A repeated object that is not kept counts too.
      expect(hasRepeatedMember(written, parseJson(written))).toBe(hasRepeated);
    }),
    { numRuns: 2000 },
  );
});
