/** Which requests two policy directories decide differently. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compareBundles, type PolicyComparison } from "../../../src/policy/diff/compare.ts";
import { policiesThatNeverApply } from "../../../src/policy/diff/never-applies.ts";
import { proveEqual } from "../../../src/policy/diff/prove.ts";
import { differenceOf } from "../../../src/policy/model/decision.ts";
import { parseQuery } from "../../../src/policy/model/query.ts";
import { draws } from "../../harness/draws.ts";
import { knowingFiles } from "./entities.ts";
import { bundleOf, declaringFiles, engineOf, type Files, forbid, openFiles, permit, queries } from "./harness.ts";
import { attributeConditions, conditions } from "./pool.ts";

async function compare(old: Files, next: Files): Promise<PolicyComparison> {
  return compareBundles(await bundleOf({ ...openFiles, ...old }), await bundleOf({ ...openFiles, ...next }));
}

const kind = (...kinds: string[]) =>
  `[${kinds.map((it) => `"${it}"`).join(", ")}].contains(context.claimed.resource.kind)`;

const b = (policy: string): Files => ({ "default/b.cedar": policy });

/** What is laid over the open directory before and after, and what changes: kind, and what the example claims. */
const table: readonly (readonly [
  name: string,
  old: Files,
  next: Files,
  changes: readonly (readonly [string, object])[],
])[] = [
  ["nothing", {}, {}, []],
  [
    "a forbid that is gone",
    { "platform/b.cedar": forbid("b", "context.claimed has purpose") },
    {},
    [["allows", { purpose: "anything-else" }]],
  ],
  [
    "a permit that is narrower",
    {},
    { "default/all.cedar": permit("all", 'principal.scopes.contains("s")') },
    [["denies", {}]],
  ],
  [
    "a permit that is another's now",
    { "default/all.cedar": permit("all", 'context.claimed.resource.kind like "q*"') },
    { "default/all.cedar": permit("all", 'context.claimed.resource.kind like "*b"') },
    [
      ["denies", { resource: { kind: expect.stringMatching(/^q/) } }],
      ["allows", { resource: { kind: expect.stringMatching(/b$/) } }],
    ],
  ],
  [
    "inputs that are compared with each other",
    {},
    b(
      forbid(
        "b",
        'context.claimed.attributes.hasTag("owner") && context.claimed.attributes.getTag("owner") == context.claimed.workload.application',
      ),
    ),
    [["denies", { attributes: { owner: "anything-else" } }]],
  ],
  [
    "numbers",
    b(forbid("b", "context.claimed has content_size_bytes && context.claimed.content_size_bytes > 7")),
    b(forbid("b", "context.claimed has content_size_bytes && context.claimed.content_size_bytes >= 7")),
    [["denies", { content_size_bytes: 7 }]],
  ],
  [
    "guidance that contradicts another's",
    b(permit("b", kind("a"), '@handling_mode("one")')),
    {
      "default/b.cedar": permit("b", kind("a"), '@handling_mode("one")'),
      "default/c.cedar": permit("c", 'context.claimed.labels.contains("x")', '@handling_mode("two")'),
    },
    [
      ["denies", { resource: { kind: "a" }, labels: ["x"] }],
      ["guides", { labels: ["x"] }],
    ],
  ],
  [
    "a scope that is required",
    {},
    b(permit("b", kind("a"), '@required_scopes("s")')),
    [
      ["denies", { resource: { kind: "a" } }],
      ["guides", { resource: { kind: "a" } }],
    ],
  ],
  [
    "actions that a denial asks for",
    b(forbid("b", kind("a"))),
    { "default/b.cedar": `@required_actions("tell") ${forbid("b", kind("a"))}` },
    [["guides", { resource: { kind: "a" } }]],
  ],
  [
    "guidance that follows for a key of the caller's own, and not for a managed one",
    b(permit("b", kind("a"), '@key_strategy("local_content_key")')),
    b(permit("b", kind("a"))),
    [["guides", { resource: { kind: "a" }, key_reference: "kms://" }]],
  ],
  [
    "guidance that is the default of one action, and not of another",
    {},
    b(permit("b", kind("a"), '@evidence_expected("protect")')),
    [["guides", { resource: { kind: "a" } }]],
  ],
  [
    "an obligation, which callers do not understand yet",
    {},
    b(permit("b", kind("a"), '@obligation("tell; within = 3")')),
    [
      ["denies", { resource: { kind: "a" } }],
      ["guides", { resource: { kind: "a" } }],
    ],
  ],
  [
    "what was registered",
    {
      "default/b.cedar": forbid("b", 'context has registered && context.registered.labels.contains("x")'),
      "default/c.cedar": forbid("c", 'context has registered && context.registered.labels_ever.contains("x")'),
    },
    b(forbid("c", 'context has registered && context.registered.labels_ever.contains("x")')),
    [],
  ],
  [
    "what was registered once",
    b(forbid("b", 'context has registered && context.registered.labels_ever.contains("x")')),
    b(forbid("b", 'context has registered && context.registered.labels.contains("x")')),
    [["allows", { resource: { kind: "anything-else" } }]],
  ],
  [
    "whether anything was registered, and by whom",
    {},
    b(
      forbid(
        "b",
        "!(context has registered && context.registered.application == context.claimed.workload.application)",
      ),
    ),
    [["denies", {}]],
  ],
  [
    "guidance of the manifest",
    {},
    { "manifest.yaml": 'platform: platform\ntenants: { "*": default }\nguidance: { handling_mode: careful }' },
    [["guides", {}]],
  ],
];

test.each(table)("finds the change: %s", async (_name, old, next, changes) => {
  const { ways: found } = await compare(old, next);
  const [before, after] = [await engineOf({ ...openFiles, ...old }), await engineOf({ ...openFiles, ...next })];
  for (const { kind, example } of found) {
    const query = parseQuery({ ...example });
    expect(differenceOf(before.decide(query), after.decide(query))?.kind).toBe(kind);
  }
  const kinds = new Set(found.map(({ kind }) => kind));
  expect([...kinds].sort()).toEqual([...new Set(changes.map(([kind]) => kind))].sort());
  const seen = found.map(({ kind, example }) => [kind, example.claimed]);
  for (const [difference, claimed] of changes)
    expect(seen).toContainEqual([difference, expect.objectContaining(claimed)]);
});

test("differences in text are reported policy by policy", async () => {
  const { summary } = await compare(
    { "default/b.cedar": `@warning("w") ${permit("b", kind("a"))}`, "default/c.cedar": forbid("c", kind("c")) },
    {
      "default/b.cedar": `@id("b") @description("t") permit (principal, action == Action::"access", resource) when { ${kind("b")} };`,
      "default/d.cedar": forbid("d", kind("d")),
      "manifest.yaml": 'platform: platform\ntenants: { "*": default }\nguidance: { handling_mode: careful }',
    },
  );
  const lines = summary.map(({ set = "manifest", id, change }) => `${set}/${id} ${change}`);
  expect(lines).toEqual(["manifest/guidance changed", "default/b changed", "default/c removed", "default/d added"]);
  expect(summary[1]?.lines).toEqual([
    ...["protect", "rewrap", "wrap", "unwrap", "rewrapKey"].map((action) => `- action ${action}`),
    expect.stringMatching(/^- when .*"a"/),
    '- @warning("w")',
    expect.stringMatching(/^\+ when .*"b"/),
    '+ @description("t")',
  ]);
});

test("an action that a policy newly permits is found for all principals that it permits", async () => {
  const departments = (actions: string) =>
    `@id("departments") permit (principal, action in [${actions}], resource)
     when { context.claimed.attributes.hasTag("department") && context.claimed.attributes.getTag("department") == "finance" };`;
  const others = Object.fromEntries(
    Array.from({ length: 12 }, (_, at) => [`default/o${at}.cedar`, permit(`o${at}`, kind(`k${at}`))]),
  );
  const base = { ...others, "default/all.cedar": permit("all", 'principal.scopes.contains("all")') };
  const { ways: changes } = await compare(
    { ...base, "default/d.cedar": departments('Action::"protect", Action::"access"') },
    {
      ...base,
      "default/d.cedar": departments(
        'Action::"protect", Action::"access", Action::"wrap", Action::"unwrap", Action::"rewrapKey"',
      ),
    },
  );
  expect(changes.map(({ kind, actions }) => [kind, actions])).toEqual([["allows", ["wrap", "unwrap", "rewrapKey"]]]);
});

test("every question of the tests is asked, and with each member changed", async () => {
  const question = {
    tenant: "tenant-a",
    principal: { scopes: ["s"] },
    action: "protect",
    claimed: {
      workload: { application: "payroll" },
      resource: { kind: "record" },
      labels: ["x", "y"],
      purpose: "audit",
    },
  };
  const rare = forbid(
    "rare",
    `context.claimed.workload.application == "payroll" && context.claimed.labels.contains("x")
     && !context.claimed.labels.contains("y") && context.claimed has purpose && principal.scopes.contains("s")`,
  );
  const bundles = [await bundleOf(openFiles), await bundleOf({ ...openFiles, "default/r.cedar": rare })] as const;
  const { ways: changes } = compareBundles(...bundles, [question]);
  expect(changes.map(({ found_by }) => found_by)).toContain("mutation");
});

test.each([
  ["9007199254740992", "9007199254740993"],
  ["9223372036854775806", "9223372036854775807"],
])("the numbers %s and %s, which JSON rounds alike, are different in texts and in proofs", async (one, other) => {
  const size = "context.claimed has content_size_bytes && context.claimed.content_size_bytes";
  const below = (number: string) => bundleOf({ ...openFiles, ...b(forbid("b", `${size} < ${number}`)) });
  const [old, next] = [await below(one), await below(other)];
  expect(compareBundles(old, next).summary).toMatchObject([{ id: "b", change: "changed" }]);
  const unasked = { missing: "the solver was not asked" };
  expect(await proveEqual(old, next, 0, async () => unasked)).toEqual(unasked);
  expect(await proveEqual(old, old, 0, async () => unasked)).toMatchObject({ found: [], undecided: [] });
});

test("attributes of callers of every type are compared", async () => {
  const declared = (conditions: string) => ({ ...knowingFiles, "default/b.cedar": forbid("b", conditions) });
  const roles = 'principal has roles && principal.roles.contains("r") && principal.roles.containsAny(["s", "t"])';
  const { ways: changes } = await compare(knowingFiles, declared(`${roles} && principal.clearance > 2`));
  expect(changes).toMatchObject([
    {
      kind: "denies",
      example: { principal: { attributes: { clearance: 3, roles: expect.arrayContaining(["r"]) } } },
    },
  ]);
});

/** What decides though no other value is mentioned. */
const presences = [
  "principal has roles",
  "principal has on_call && principal.on_call",
  'principal == Principal::"tenant-a/a" && principal has constructor',
  'principal has constructor && principal.constructor == ""',
  'principal has constructor && principal.constructor like ""',
  'principal has roles && principal.roles.contains("")',
  'principal has roles && ["", "a"].containsAll(principal.roles)',
  'context.claimed.labels.contains("")',
  'context.claimed.attributes.hasTag("region") && context.claimed.attributes.getTag("region") == ""',
  'context has registered && context.registered.labels_ever.contains("") && !context.registered.labels.contains("")',
  'context has registered && context.registered.attributes.hasTag("a") && context.registered.attributes.getTag("a") == ""',
];

test.each(presences)("the change by a forbid is found if %s", async (condition) => {
  const { ways: changes } = await compare(declaringFiles, {
    ...declaringFiles,
    "default/b.cedar": forbid("b", condition),
  });
  expect(changes.map(({ kind }) => kind)).toEqual(["denies"]);
  // The example can be asked as it stands: what is required of callers is in it.
  expect(changes[0]?.example.principal.attributes).toHaveProperty("clearance");
});

test("a denial's guidance is a difference for an enforcement point's subject, although both deny", async () => {
  const warned = '@id("b") @warning("w") forbid (principal, action, resource);';
  const { ways: changes } = await compare({}, { "default/b.cedar": warned });
  const kinds = changes.map(({ kind, example }) => [kind, example.on_behalf_of !== undefined]);
  expect(kinds).toContainEqual(["denies", false]);
  expect(kinds).toContainEqual(["guides", true]);
});

test("organisation data decides too", async () => {
  const ranked = "context.claimed.label_set has max_rank && context.claimed.label_set.max_rank > 2";
  const files = { ...knowingFiles, "default/b.cedar": forbid("b", ranked) };
  const lower = `${knowingFiles["labels.json"]}`.replace('"rank": 3', '"rank": 2');
  const { ways: changes } = await compare(files, { ...files, "labels.json": lower });
  expect(changes.map(({ kind, example }) => [kind, example.claimed.labels])).toEqual([["allows", ["secret"]]]);
  // Nothing differs, or nothing that a policy reads.
  expect(await compare(files, files)).toMatchObject({ ways: [], summary: [] });
  expect(await compare(knowingFiles, { ...knowingFiles, "labels.json": lower })).toMatchObject({ ways: [] });
});

describe("a policy applies to no request", () => {
  const named = async (condition: string) => {
    const bundle = await bundleOf({ ...declaringFiles, "default/b.cedar": forbid("b", condition) });
    return policiesThatNeverApply(bundle).map(({ id }) => id);
  };

  test.each([
    'context.claimed.resource.kind == "a" && context.claimed.resource.kind == "b"',
    'context.claimed.labels.contains("a") && !context.claimed.labels.contains("a")',
    'context.claimed.labels.isEmpty() && context.claimed.labels.contains("a")',
    "context.claimed has content_size_bytes && context.claimed.content_size_bytes > 7 && context.claimed.content_size_bytes < 7",
    "context.claimed has content_size_bytes && context.claimed.content_size_bytes < 0",
    'principal.tenant == "tenant-a" && principal == Principal::"tenant-b/p"',
    'principal.auth_source == "password"',
    'context.claimed has artifact_profile && context.claimed.artifact_profile == "zip"',
  ])("if %s", async (condition) => {
    expect(await named(condition)).toEqual(["b"]);
  });

  test.each([
    'context.claimed.resource.kind == "a" || context.claimed.resource.kind == "b"',
    'principal.subject like "a*" && principal.subject like "*b"',
    'principal == Principal::"tenant-b/p"',
    'principal == Principal::"tenant-b/spiffe://b/p"',
    'principal.principal_id == "p" && principal != Principal::"tenant-b/q"',
    "context.claimed.workload.application == context.claimed.resource.kind",
    "context.claimed has content_size_bytes && context.claimed.content_size_bytes * 2 == 6",
    'action == Action::"unwrap"',
    ...presences,
  ])("but not if %s", async (condition) => {
    expect(await named(condition)).toEqual([]);
  });

  test("the directory is refused if Cedar's own validator reports the type", async () => {
    const action = 'action == Action::"protect"';
    await expect(named(`(${action}) && !(${action})`)).rejects.toThrow("policy is impossible");
  });

  test("no policy is reported then", async () => {
    const condition = fc.constantFrom(...presences, ...conditions, ...attributeConditions);
    const pair = fc.tuple(condition, condition, fc.boolean());
    await fc.assert(
      fc.asyncProperty(pair, fc.array(queries, { minLength: 50, maxLength: 50 }), async ([a, b, isNegated], asked) => {
        const condition = `(${a}) && ${isNegated ? "!" : ""}(${b})`;
        const never = await named(condition).catch((refusal: Error) => {
          expect(refusal.message, condition).toContain("policy is impossible");
          return [];
        });
        if (never.length === 0) return;
        const engine = await engineOf({ ...declaringFiles, "default/b.cedar": forbid("b", condition) });
        for (const query of asked) expect(engine.decide(query).reasons, condition).not.toContain("tenant/b");
      }),
      { numRuns: draws(6, 25), endOnFailure: true },
    );
  });
});
