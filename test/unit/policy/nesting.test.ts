/** Policies that would run over the engine's stack, which breaks it for every later question, are refused unread. */
import { describe, expect, test } from "vitest";
import { tooDeepAt } from "../../../src/policy/check/check-set.ts";
import { ask, engineOf, openFiles, problemsOf } from "./harness.ts";

const kind = "context.claimed.resource.kind";
const no = `${kind} == "none"`;
const times = (count: number, text: string) => text.repeat(count);

/** Conditions of a size, none of which holds; and the largest size that is taken. */
const shapes: readonly (readonly [name: string, largest: number, of: (size: number) => string])[] = [
  ["alternatives", 196, (size) => `${times(size, `${no} || `)}${no}`],
  ["requirements", 196, (size) => `${no}${times(size, ` && ${kind} == "none"`)}`],
  ["alternatives of requirements", 196, (size) => `${times(size, `${no} && ${no} || `)}${no}`],
  ["cases", 196, (size) => `${times(size, `if ${no} then true else `)}${no}`],
  ["clauses", 195, (size) => `${no} }${times(size, ` when { ${no} }`)} unless { ${no}`],
  ["sums", 199, (size) => `${times(size, "1 + ")}1 == 0`],
  ["brackets", 31, (size) => `${times(size, "(")}${no}${times(size, ")")}`],
  ["alternatives in brackets", 31, (size) => `${times(size, `${no} || (`)}${no}${times(size, ")")}`],
  [
    "long alternatives in brackets",
    31,
    (size) => `${times(size, `${no} || ${no} || ${no} || (`)}${no}${times(size, ")")}`,
  ],
  ["cases in brackets", 31, (size) => `${times(size, "if (")}${no}${times(size, ") then true else false")}`],
];

const policyOf = (condition: string) => `@id("deep") forbid (principal, action, resource)\nwhen { ${condition} };`;

describe.each(shapes)("%s", (_, largest, of) => {
  test("are accepted up to a size that the engine can evaluate", async () => {
    expect(tooDeepAt(policyOf(of(largest)))).toBeUndefined();
    const engine = await engineOf({ ...openFiles, "default/deep.cedar": policyOf(of(largest)) });
    const decide = () => engine.decide(ask("protect"));
    for (let i = 0; i < 20; i++) expect(decide()).toMatchObject({ allow: true });
  });

  test("are refused beyond it, with their line", async () => {
    expect(tooDeepAt(policyOf(of(largest + 1)))).toBeDefined();
    for (const size of [largest + 1, 20_000])
      expect(await problemsOf({ ...openFiles, "default/deep.cedar": policyOf(of(size)) })).toEqual([
        expect.stringMatching(/^default\/deep\.cedar:2: the policy is nested too deeply \(/),
      ]);
  });
});

test.each([
  ["a long set", `[${times(5_000, '"a", ')}"b"].contains(${kind})`],
  ["brackets and operators in text and comments", `${kind} == "${times(500, "((&& ")}" // ${times(500, "((||")}\n`],
  ["many small conditions", `[${times(500, `(${no} || ${no}), `)}${no}].contains(true)`],
])("%s is not deep", (_, condition) => {
  expect(tooDeepAt(policyOf(condition))).toBeUndefined();
});

test("unbalanced brackets are left to Cedar", async () => {
  const [problem] = await problemsOf({ ...openFiles, "default/deep.cedar": policyOf(times(300, ")")) });
  expect(problem).toMatch(/^default\/deep\.cedar:2: unexpected token/);
});
