/** Questions about another principal than the caller: which permits count, and that nothing else changes. */
import { policyToJson } from "@cedar-policy/cedar-wasm/nodejs";
import fc from "fast-check";
import { expect, test } from "vitest";
import { loadPolicyDirectory } from "../../../src/policy/check/check.ts";
import { countsOnBehalfOf } from "../../../src/policy/check/delegation.ts";
import { compareBundles } from "../../../src/policy/diff/compare.ts";
import type { Evaluator } from "../../../src/policy/engine/engine-sets.ts";
import { programOf } from "../../../src/policy/evaluate/program.ts";
import type { PolicyBundle } from "../../../src/policy/load/bundle.ts";
import type { OnBehalfOf, PolicyQuery } from "../../../src/policy/model/decision.ts";
import { parseQueryText } from "../../../src/policy/model/query.ts";
import { draws } from "../../harness/draws.ts";
import { anyQueries, ask, engineOf, type Files, memoryFileSystem, openFiles, permitAll } from "./harness.ts";
import { conditions, onBehalfOfConditions } from "./pool.ts";

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
const admin = 'principal.principal_id == "writer"';

function permit(id: string, condition: string): string {
  return `@id("${id}") permit (principal, action, resource) when { ${condition} };\n`;
}

function counts(clauses: string, effect = "permit"): boolean {
  const parsed = policyToJson(`${effect} (principal, action, resource) ${clauses};`);
  if (parsed.type === "failure") throw new Error(parsed.errors[0]?.message);
  return countsOnBehalfOf(programOf(parsed.json));
}

function manyNames(step: 1 | -1): string {
  const names = Array.from({ length: 2_000 }, (_, index) => `"n${index}"`);
  return `[${(step === 1 ? names : names.reverse()).join()}]`;
}

test.each<[string, boolean]>([
  ['when { context has on_behalf_of && context.on_behalf_of.type == "user" }', true],
  ['when { context has on_behalf_of.id && context.on_behalf_of.id == "alice" }', true],
  ['when { context has on_behalf_of && context.on_behalf_of.properties.hasTag("role") }', true],
  ['when { context has on_behalf_of && ["alice"].contains(context.on_behalf_of.id) }', true],
  ['when { context has on_behalf_of && context.on_behalf_of["id"] like "a*" }', true],
  ['when { principal.scopes.contains("a") } when { context has on_behalf_of && context.on_behalf_of.id == "a" }', true],
  ['when { context has on_behalf_of } unless { context has on_behalf_of && context.on_behalf_of.id == "a" }', true],
  ['when { context has on_behalf_of } unless { context.on_behalf_of.id == "a" }', true],
  ['unless { !(context has on_behalf_of) || context.on_behalf_of.id != "a" }', true],
  ['when { !(context has on_behalf_of) || context.on_behalf_of.id == "a" }', true],
  ['when { if context has on_behalf_of then context.on_behalf_of.id == "a" else principal.scopes.isEmpty() }', true],
  [
    'when { if context has on_behalf_of && principal.scopes.isEmpty() then context.on_behalf_of.id == "a" else false }',
    true,
  ],
  // What says nothing of whom it is about.
  ["", false],
  ["when { true }", false],
  ["when { context has on_behalf_of }", false],
  ["when { !(context has on_behalf_of) }", true],
  ...["id", "type", "properties", "property_values"].flatMap((member): [string, boolean][] => [
    [`when { context has on_behalf_of.${member} }`, false],
    [`when { context has on_behalf_of && context.on_behalf_of has ${member} }`, false],
    [`unless { !(context has on_behalf_of.${member}) }`, false],
    [`when { if context has on_behalf_of.${member} then true else context.on_behalf_of.id == "a" }`, false],
    [`when { !(context has on_behalf_of.${member}) }`, true],
  ]),
  ["when { context has on_behalf_of && { it: context.on_behalf_of.id } has it }", false],
  // Readings that say the same of everybody.
  ...[
    "context.on_behalf_of.id == context.on_behalf_of.id",
    'context.on_behalf_of.id like "*"',
    'context.on_behalf_of.id like "**"',
    "context.on_behalf_of.property_values.containsAll([])",
    "context.on_behalf_of.property_values.containsAll(context.on_behalf_of.property_values)",
    "!(context.on_behalf_of.property_values.containsAny([]))",
    "[context.on_behalf_of.id].contains(context.on_behalf_of.id)",
    '["a", context.on_behalf_of.id].containsAll(["a"])',
    "[context.on_behalf_of.id].containsAll(context.claimed.labels)",
    'context.on_behalf_of.id == "a" || context.on_behalf_of.id != "a"',
    'context.on_behalf_of.id like "a*" || !(context.on_behalf_of.id like "a**")',
    '{ it: context.on_behalf_of.id, of: principal.subject }.of == "a"',
    'if context.on_behalf_of.id == "a" then true else principal.scopes.isEmpty()',
    '(context.on_behalf_of.id == "a") == (context.on_behalf_of.id == "a")',
  ].map((condition): [string, boolean] => [`when { context has on_behalf_of && (${condition}) }`, false]),
  // A list of many names, and the same in another order.
  [`when { context has on_behalf_of && ${manyNames(1)}.contains(context.on_behalf_of.id) }`, true],
  [
    `when { context has on_behalf_of && (${manyNames(1)}.contains(context.on_behalf_of.id) || !${manyNames(-1)}.contains(context.on_behalf_of.id)) }`,
    false,
  ],
  ["when { context == context }", false],
  ['when { principal.subject == "context.on_behalf_of.id" }', false],
  ['when { context.claimed.attributes.hasTag("on_behalf_of") }', false],
  // A permit for any subject.
  ['when { context has on_behalf_of && (context.on_behalf_of.id == "a" || principal.scopes.isEmpty()) }', false],
  ['when { context has on_behalf_of || context.on_behalf_of.id == "a" }', false],
  ['when { context has on_behalf_of && !(context.on_behalf_of.id == "a" && principal.scopes.isEmpty()) }', false],
  [
    'when { if context has on_behalf_of && context.on_behalf_of.id == "a" then true else principal.scopes.isEmpty() }',
    false,
  ],
  [
    'when { (context has on_behalf_of && context.on_behalf_of.id == "a" || principal.scopes.isEmpty()) == true }',
    false,
  ],
  ['when { [context has on_behalf_of && context.on_behalf_of.id == "a", true].contains(true) }', false],
])("a permit %s counts for somebody else: %s", (clauses, expected) => expect(counts(clauses)).toBe(expected));

/** A condition in several ways of writing it. */
type Tree = string | readonly ["!", Tree] | readonly ["&&" | "||", Tree, Tree] | readonly ["if", Tree, Tree, Tree];

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

const { tree: trees } = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom<Tree>(...aboutSubject, ...aboutSubject, ...aboutOthers, ...always, "false"),
    fc.tuple(fc.constant("!" as const), tie("tree")),
    fc.tuple(fc.constantFrom("&&" as const, "||" as const), tie("tree"), tie("tree")),
    fc.tuple(fc.constant("if" as const), tie("tree"), tie("tree"), tie("tree")),
  ),
}));

/** Other ways of writing a comparison that stands for itself. */
function spellings(atom: string): readonly string[] {
  const [, left, right] = /^(.*) == (".*")$/.exec(atom) ?? [];
  const [, set, member] = /^(.*)\.contains\((.*)\)$/.exec(atom) ?? [];
  return [
    atom,
    `(${atom}) == true`,
    `false != (${atom})`,
    `[${atom}].contains(true)`,
    ...(always.includes(atom) ? always : []),
    ...(left === undefined
      ? []
      : [
          `${right} == ${left}`,
          `[${right}].contains(${left})`,
          `${left} like ${right}`,
          `{ it: ${left} }.it == ${right}`,
        ]),
    ...(set === undefined ? [] : [`${set}.containsAll([${member}])`, `[${member}].containsAny(${set})`]),
  ];
}

/** The same condition, written otherwise: `choose` gives a number below the given one. */
function respelled(tree: Tree, choose: (below: number) => number): Tree {
  const oneOf = <T>(choices: readonly T[]): T => choices[choose(choices.length)] as T;
  const again = (it: Tree) => respelled(it, choose);
  if (typeof tree === "string") return oneOf(spellings(tree));
  const [operator, ...operands] = tree;
  const [a = "", b = "", c = ""] = operands.map(again);
  const not = (it: Tree): Tree => ["!", it];
  const choices: Readonly<Record<string, readonly Tree[]>> = {
    "!": [
      ["!", a],
      ["if", a, "false", "true"],
      ["!", not(not(a))],
    ],
    "&&": [["&&", a, b], ["&&", b, a], ["if", a, b, "false"], ["if", not(a), "false", b], not(["||", not(a), not(b)])],
    "||": [["||", a, b], ["||", b, a], ["if", a, "true", b], not(["&&", not(a), not(b)]), ["||", a, ["&&", not(a), b]]],
    if: [
      ["if", a, b, c],
      ["if", not(a), c, b],
      ["||", ["&&", a, b], ["&&", not(a), c]],
      ["&&", ["||", not(a), b], ["||", a, c]],
    ],
  };
  return oneOf(choices[operator] as readonly Tree[]);
}

function written(tree: Tree): string {
  if (typeof tree === "string") return `(${tree})`;
  const [operator, ...operands] = tree;
  const [a, b, c] = operands.map(written);
  if (operator === "!") return `(!${a})`;
  return operator === "if" ? `(if ${a} then ${b} else ${c})` : `(${a} ${operator} ${b})`;
}

const choosing = fc.infiniteStream(fc.nat({ max: 1_000 })).map((numbers) => (below: number) => {
  const { value } = numbers.next();
  return (value ?? 0) % below;
});

test("however a condition is written, it gets one verdict", () => {
  const verdicts = { true: 0, false: 0 };
  fc.assert(
    fc.property(trees, choosing, (tree, choose) => {
      const other = written(respelled(tree, choose));
      const expected = counts(`when { context has on_behalf_of && ${written(tree)} }`);
      verdicts[`${expected}`]++;
      expect(counts(`when { context has on_behalf_of && ${other} }`)).toBe(expected);
      expect(counts(`when { context has on_behalf_of } when { ${other} }`)).toBe(expected);
      expect(counts(`when { context has on_behalf_of.id && ${other} }`)).toBe(expected);
      expect(counts(`when { context has on_behalf_of } unless { !${other} }`)).toBe(expected);
      expect(counts(`unless { !(context has on_behalf_of) || !${other} }`)).toBe(expected);
    }),
    { numRuns: draws(100, 500) },
  );
  expect(Math.min(...Object.values(verdicts))).toBeGreaterThan(draws(10, 50));
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

test("a permit counts exactly if, whatever else is said, it refuses some subject", async () => {
  const verdicts = { true: 0, false: 0 };
  await fc.assert(
    fc.asyncProperty(trees, choosing, async (tree, choose) => {
      const condition = `context has on_behalf_of && ${written(respelled(tree, choose))}`;
      // As a forbid, which is always asked: the reasons then say where the condition holds.
      const forbid = `@id("it") forbid (principal, action, resource) when { ${condition} };`;
      const engine = await engineOf({ ...openFiles, "platform/it.cedar": forbid }).catch(() => undefined);
      // Cedar refuses what can never apply.
      fc.pre(engine !== undefined);
      const holds = (query: PolicyQuery) => engine?.decide(query).reasons.includes("platform/it") === true;
      const refusesSomebody = others.every((other) => subjects.some((onBehalfOf) => !holds({ ...other, onBehalfOf })));
      engine?.release();
      verdicts[`${refusesSomebody}`]++;
      expect(counts(`when { ${condition} }`)).toBe(refusesSomebody);
    }),
    { numRuns: 100 },
  );
  expect(Math.min(...Object.values(verdicts))).toBeGreaterThan(10);
});

test("a forbid always counts", () => expect(counts("", "forbid")).toBe(true));

const evaluators: readonly Evaluator[] = ["compiled", "cedar", "both"];
const layerings: readonly (readonly [string, Files, readonly string[], boolean])[] = [
  ["nothing reads it", openFiles, [], false],
  ["the platform's alone", { ...openFiles, "platform/b.cedar": permit("b", forAlice) }, [], false],
  ["the tenant's alone", { ...openFiles, "default/b.cedar": permit("b", forAlice) }, [], false],
  [
    "both",
    { ...openFiles, "platform/b.cedar": permit("b", forAlice), "default/b.cedar": permit("b", forAlice) },
    ["platform/b", "tenant/b"],
    true,
  ],
  [
    "both, beside the caller's own rights and a way around",
    {
      ...openFiles,
      "platform/b.cedar": permit("b", forAlice),
      "default/b.cedar": permit("b", `context has on_behalf_of && (context.on_behalf_of.id == "bob" || ${admin})`),
    },
    [],
    false,
  ],
];

test.each(
  layerings.flatMap(([name, files, reasons, allow]) =>
    evaluators.map((evaluator) => ({ name, files, reasons, allow, evaluator })),
  ),
)("$name: $evaluator", async ({ files, reasons, allow, evaluator }) => {
  const engine = await engineOf(files, {}, { evaluator });
  // First the same question about the caller itself, which is remembered.
  expect(engine.decide(ask("access")).allow).toBe(true);
  expect(engine.decide(askFor())).toMatchObject({ allow, reasons });
  expect(engine.decide(askFor({ ...alice, id: "bob" }))).toMatchObject({ allow: false, reasons: [] });
  expect(engine.decide(ask("access")).allow).toBe(true);
  engine.release();
});

test("all forbids count, and a permit that does not count cannot fail the question", async () => {
  const failing =
    "context.claimed has content_size_bytes && context.claimed.content_size_bytes + 9223372036854775807 == 0";
  const files = {
    ...openFiles,
    "platform/b.cedar": permit("b", forAlice),
    "default/b.cedar": `${permit("b", forAlice)}${permit("fails", failing)}@id("never") forbid (principal, action, resource) when { context.claimed.labels.contains("never") };`,
  };
  for (const evaluator of evaluators) {
    const engine = await engineOf(files, {}, { evaluator });
    const asked = (claimed: object): PolicyQuery => ({ ...ask("access", claimed), onBehalfOf: alice });
    expect(engine.decide(asked({ content_size_bytes: 1 }))).toMatchObject({ allow: true });
    expect(engine.decide(ask("access", { content_size_bytes: 1 }))).toMatchObject({ allow: false });
    expect(engine.decide(asked({ labels: ["never"] }))).toMatchObject({ allow: false, reasons: ["tenant/never"] });
    engine.release();
  }
});

const chosen = fc.record({
  isPermit: fc.boolean(),
  condition: fc.constantFrom(...conditions, ...onBehalfOfConditions, ...onBehalfOfConditions),
});
const layer = fc.array(chosen, { minLength: 1, maxLength: 4 });

function textOf(policies: readonly { readonly isPermit: boolean; readonly condition: string }[]): string {
  return policies
    .map(({ isPermit, condition }, index) =>
      isPermit
        ? permit(`p${index}`, condition)
        : `@id("p${index}") forbid (principal, action, resource) when { ${condition} };\n`,
    )
    .join("");
}

test("whichever evaluates, an answer about another subject is that of the sets without the permits that do not count", async () => {
  let allowed = 0;
  await fc.assert(
    fc.asyncProperty(layer, layer, fc.array(anyQueries, { minLength: 40, maxLength: 40 }), async (...given) => {
      const [platform, tenant, asked] = given;
      const isCounted = ({ isPermit, condition }: (typeof platform)[number]) =>
        !isPermit || counts(`when { ${condition} }`);
      // Ids stay, so that reasons can be compared; what does not count is never asked.
      const without = (policies: typeof platform) =>
        policies.map((policy) =>
          isCounted(policy)
            ? policy
            : { isPermit: true, condition: `!(context has on_behalf_of) && (${policy.condition})` },
        );
      const files = (one: typeof platform, other: typeof platform): Files => ({
        ...openFiles,
        "platform/all.cedar": textOf(one),
        "default/all.cedar": textOf(other),
      });
      const engines = await Promise.all(
        evaluators.map((evaluator) => engineOf(files(platform, tenant), {}, { evaluator, cachedDecisions: 0 })),
      );
      const reduced = await engineOf(files(without(platform), without(tenant)), {}, { cachedDecisions: 0 });
      for (const query of asked.filter(({ onBehalfOf }) => onBehalfOf !== undefined)) {
        const { policyRevision: _, inputs: __, ...expected } = reduced.decide(query);
        for (const engine of engines) expect(engine.decide(query)).toMatchObject(expected);
        if (expected.allow) allowed++;
      }
      for (const engine of [...engines, reduced]) engine.release();
    }),
    {
      numRuns: draws(6, 25),
      endOnFailure: true,
      examples: [[[{ isPermit: true, condition: forAlice }], [{ isPermit: true, condition: forAlice }], [askFor()]]],
    },
  );
  expect(allowed).toBeGreaterThan(0);
});

test("an explanation says why a permit for callers does not permit what is asked for another subject", async () => {
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
  engine.release();
});

test("what changes for another subject is found, with an example", async () => {
  const bundleOf = async (files: Files): Promise<PolicyBundle> =>
    (await loadPolicyDirectory("/policies", memoryFileSystem(files), {})).bundle as PolicyBundle;
  const before = { ...openFiles, "platform/b.cedar": permit("b", forAlice) };
  const after = { ...before, "default/b.cedar": permit("b", `${forAlice} && ${admin}`) };
  const { ways: changes } = compareBundles(await bundleOf(before), await bundleOf(after));
  const allows = changes.filter(({ kind }) => kind === "allows");
  expect(allows).toMatchObject([{ example: { on_behalf_of: { id: "alice" } } }]);
  expect(compareBundles(await bundleOf(before), await bundleOf(before)).ways).toEqual([]);
  // A permit that cannot count changes nothing for anybody else.
  const harmless = { ...before, "default/c.cedar": permit("c", admin) };
  const { ways: none } = compareBundles(await bundleOf(before), await bundleOf(harmless));
  expect(none.filter(({ kind }) => kind === "allows")).toEqual([]);
});

test("operators write whom a question is about", () => {
  const asked = { tenant: "a", action: "access", claimed: { workload: { application: "a" }, resource: { kind: "b" } } };
  const parse = (on_behalf_of: unknown) => parseQueryText(JSON.stringify({ ...asked, on_behalf_of })).onBehalfOf;
  expect(
    parse({ type: "user", id: "alice", properties: { department: "finance" }, property_values: ["groups=payroll"] }),
  ).toEqual(alice);
  expect(parse({ type: "user", id: "alice" })).toEqual({
    type: "user",
    id: "alice",
    properties: {},
    property_values: [],
  });
  expect(() => parse({ type: "user" })).toThrow("on_behalf_of.id must be text");
  expect(() => parse({ type: "user", id: "a", name: "b" })).toThrow("on_behalf_of has an unknown member name");
  expect(permitAll).not.toContain("on_behalf_of");
});
