/** Questions about another principal than the caller: which permits count, and that nothing else changes. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { countsOnBehalfOf } from "../../../src/policy/check/delegation.ts";
import { programOf } from "../../../src/policy/evaluate/program.ts";
import type { OnBehalfOf, PolicyQuery } from "../../../src/policy/model/decision.ts";
import { draws } from "../../harness/draws.ts";
import { ask, engineOf, openFiles, parsedPolicy, permit } from "./harness.ts";

const alice: OnBehalfOf = {
  type: "user",
  id: "alice",
  properties: { department: "finance" },
  property_values: ["department=finance", "groups=payroll"],
};

function askFor(subject: OnBehalfOf = alice): PolicyQuery {
  return { ...ask("access"), onBehalfOf: subject };
}

const forAlice = 'context has on_behalf_of && context.on_behalf_of.id == "alice"';

function counts(clauses: string, effect = "permit"): boolean {
  return countsOnBehalfOf(programOf(parsedPolicy(`${effect} (principal, action, resource) ${clauses};`)));
}

function manyNames(step: 1 | -1): string {
  const names = Array.from({ length: 2_000 }, (_, index) => `"n${index}"`);
  return `[${(step === 1 ? names : names.reverse()).join()}]`;
}

/** What the searches below do not draw. */
test.each<[string, boolean]>([
  ["", false],
  ["when { true }", false],
  ['when { context has on_behalf_of || context.on_behalf_of.id == "a" }', false],
  ["when { !(context has on_behalf_of) }", true],
  ['when { !(context has on_behalf_of) || context.on_behalf_of.id == "a" }', true],
  ['when { context has on_behalf_of && ["alice"].contains(context.on_behalf_of["id"]) }', true],
  ...["id", "type", "properties", "property_values"].flatMap((member): [string, boolean][] => [
    [`when { context has on_behalf_of && context.on_behalf_of has ${member} }`, false],
    [`unless { !(context has on_behalf_of.${member}) }`, false],
    [`when { !(context has on_behalf_of.${member}) }`, true],
  ]),
  ["when { context has on_behalf_of && { it: context.on_behalf_of.id } has it }", false],
  ["when { context has on_behalf_of && [context.on_behalf_of.id].containsAll(context.claimed.labels) }", false],
  ['when { context has on_behalf_of && { it: context.on_behalf_of.id, of: principal.subject }.of == "a" }', false],
  // Readings that say the same of every subject.
  ...[
    "context.on_behalf_of.id == context.on_behalf_of.id",
    'context.on_behalf_of.id like "*"',
    'context.on_behalf_of.id like "**"',
    '(context.on_behalf_of.id == "a") == (context.on_behalf_of.id == "a")',
    'context.on_behalf_of.id like "a*" || !(context.on_behalf_of.id like "a**")',
    "context.on_behalf_of.property_values.containsAll([])",
    "context.on_behalf_of.property_values.containsAll(context.on_behalf_of.property_values)",
    "!(context.on_behalf_of.property_values.containsAny([]))",
    "[context.on_behalf_of.id].contains(context.on_behalf_of.id)",
    '["a", context.on_behalf_of.id].containsAll(["a"])',
    'context.on_behalf_of.id != ""',
    '!(["", "a"].contains(context.on_behalf_of.type)) || context.on_behalf_of.type == "a"',
    '!(context.on_behalf_of.property_values.containsAny(["suspended"]))',
    'context.on_behalf_of.id like "a*" || !(context.on_behalf_of.id like "ab*")',
    'context.on_behalf_of.id != "a" || context.on_behalf_of.id != "b"',
    'context.on_behalf_of.id != "ab" || context.on_behalf_of.id like "*b"',
  ].map((condition): [string, boolean] => [`when { context has on_behalf_of && (${condition}) }`, false]),
  ...[
    'context.on_behalf_of.id like "a*" || !(context.on_behalf_of.id like "*b")',
    'context.on_behalf_of.id != "a" || context.on_behalf_of.type != "b"',
    'context.on_behalf_of.id like "a*b" || !(context.on_behalf_of.id like "ab*")',
  ].map((condition): [string, boolean] => [`when { context has on_behalf_of && (${condition}) }`, true]),
  // A list of many names, and the same in another order.
  [`when { context has on_behalf_of && ${manyNames(1)}.contains(context.on_behalf_of.id) }`, true],
  [
    `when { context has on_behalf_of && (${manyNames(1)}.contains(context.on_behalf_of.id) || !${manyNames(-1)}.contains(context.on_behalf_of.id)) }`,
    false,
  ],
  ["when { context == context }", false],
  ['when { principal.subject == "context.on_behalf_of.id" }', false],
  ['when { context.claimed.attributes.hasTag("on_behalf_of") }', false],
])("a permit %s counts for another subject: %s", (clauses, expected) => expect(counts(clauses)).toBe(expected));

const aboutSubject = [
  'context.on_behalf_of.id == "alice"',
  'context.on_behalf_of.type == "user"',
  'context.on_behalf_of.property_values.contains("groups=payroll")',
  'context.on_behalf_of.properties.hasTag("department")',
];
const aboutOthers = [
  'principal.scopes.contains("a")',
  'context.claimed.labels.contains("b")',
  'context.claimed.resource.kind == "c"',
];
const always = [
  "true",
  "context.on_behalf_of has id",
  "context has on_behalf_of.property_values",
  "context has on_behalf_of",
];
/** Ways of writing a comparison that stands for itself. */
function spellings(atom: string): readonly string[] {
  const [, left, right] = /^(.*) == (".*")$/.exec(atom) ?? [];
  const [, set, member] = /^(.*)\.contains\((.*)\)$/.exec(atom) ?? [];
  return [
    ...[atom, `(${atom}) == true`, `false != (${atom})`, `[${atom}].contains(true)`],
    ...(left === undefined ? [] : [`${right} == ${left}`, `[${right}].contains(${left})`]),
    ...(left === undefined ? [] : [`${left} like ${right}`, `{ it: ${left} }.it == ${right}`]),
    ...(set === undefined ? [] : [`${set}.containsAll([${member}])`, `[${member}].containsAny(${set})`]),
  ];
}

const oneOf = (atoms: readonly string[]) => fc.constantFrom(...atoms.flatMap(spellings).map((text) => `(${text})`));

const { condition: conditions } = fc.letrec<{ condition: string }>((tie) => {
  const some = tie("condition");
  const atom = fc.oneof(
    { arbitrary: oneOf(aboutSubject), weight: 8 },
    { arbitrary: oneOf(aboutOthers), weight: 3 },
    { arbitrary: oneOf(always), weight: 4 },
    { arbitrary: fc.constant("false"), weight: 1 },
  );
  return {
    condition: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      atom,
      some.map((a) => `(!${a})`),
      fc.tuple(some, fc.constantFrom("&&", "||"), some).map((parts) => `(${parts.join(" ")})`),
      fc.tuple(some, some, some).map(([a, b, c]) => `(if ${a} then ${b} else ${c})`),
    ),
  };
});

/** Some of every kind that the comparisons above tell apart, and people of whom no policy has heard. */
const subjects = ["alice", "zoe"].flatMap((id) =>
  ["user", "service"].flatMap((type) =>
    [[], ["groups=payroll"]].flatMap((property_values) =>
      [{}, { department: "finance" }].map((properties): OnBehalfOf => ({ id, type, property_values, properties })),
    ),
  ),
);
const others = [[], ["a"]].flatMap((scopes) =>
  [[], ["b"]].flatMap((labels) =>
    ["c", "d"].map((kind) => {
      const query = ask("access", { labels, resource: { kind } });
      return { ...query, caller: { ...query.caller, scopes } };
    }),
  ),
);

/** The same clauses, written otherwise. */
const clausesOf = (condition: string): readonly string[] => [
  `when { context has on_behalf_of && ${condition} }`,
  `when { context has on_behalf_of } when { ${condition} }`,
  `when { context has on_behalf_of.id && ${condition} }`,
  `when { context has on_behalf_of } unless { !${condition} }`,
  `unless { !(context has on_behalf_of) || !${condition} }`,
];

test("a permit counts exactly if it refuses some subject in every case, in any spelling", async () => {
  const verdicts = { true: 0, false: 0 };
  await fc.assert(
    fc.asyncProperty(conditions, async (condition) => {
      const clauses = clausesOf(condition);
      // As a forbid, which is always asked: the reasons then say where the condition holds.
      const forbid = `@id("it") forbid (principal, action, resource) ${clauses[0]};`;
      const engine = await engineOf({ ...openFiles, "platform/it.cedar": forbid }).catch(() => undefined);
      // Cedar refuses what can never apply.
      fc.pre(engine !== undefined);
      const holds = (query: PolicyQuery) => engine?.decide(query).reasons.includes("platform/it") === true;
      const refusesOne = others.every((other) => subjects.some((onBehalfOf) => !holds({ ...other, onBehalfOf })));
      verdicts[`${refusesOne}`]++;
      for (const each of clauses) expect(counts(each), each).toBe(refusesOne);
    }),
    { numRuns: draws(100, 300) },
  );
  expect(Math.min(...Object.values(verdicts))).toBeGreaterThan(10);
});

test("a forbid always counts", () => expect(counts("", "forbid")).toBe(true));

test("an explanation says why a permit for callers does not permit another subject", async () => {
  const engine = await engineOf({ ...openFiles, "platform/b.cedar": permit("b", forAlice) });
  const { layers, ...decision } = engine.explain(askFor());
  expect(decision).toMatchObject({ allow: false, reasons: [] });
  expect(layers.map(({ outcome }) => outcome)).toEqual(["allow", "deny"]);
  const [all] = layers[1]?.policies ?? [];
  expect(all).toMatchObject({
    decided: false,
    unmet: [{ needs: expect.stringContaining("to read context.on_behalf_of") }],
  });
  expect(engine.explain(ask("access")).layers[1]?.policies[0]).toMatchObject({ decided: true, unmet: [] });
});
