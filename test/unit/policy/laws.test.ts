/** Whatever policies read and whatever is asked, the answer is Cedar's, in whichever way it is found; and laws of guidance. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { checkBundle } from "../../../src/policy/check/check.ts";
import { listNames, type PolicyGuidance, scalarNames } from "../../../src/policy/guidance/annotations.ts";
import { describeGuidance, mergeGuidance } from "../../../src/policy/guidance/guidance.ts";
import type { Layer, PolicyDecision, PolicyQuery } from "../../../src/policy/model/decision.ts";
import { draws } from "../../harness/draws.ts";
import { entityConditions, knowingFiles } from "./entities.ts";
import { anyQueries, ask, bundleOf, engineOf, type Files, openFiles } from "./harness.ts";
import {
  attributeConditions,
  onBehalfOfConditions,
  overflowing,
  conditions as plainConditions,
  registeredConditions,
} from "./pool.ts";
import { wholeAnswer } from "./whole-question.ts";

const conditions = [
  ...[...plainConditions, ...attributeConditions, ...registeredConditions, ...onBehalfOfConditions],
  ...entityConditions,
  'action in Action::"dataOperation"',
  'Action::"access" in Action::"dataOperation" && context.claimed.content_digest_present',
  'action in [Action::"keyOperation", Action::"protect"]',
  'Action::"keyOperation" in Action::"keyOperation" || principal.subject == "a"',
  'Principal::"tenant-a/a" has subject && Principal::"tenant-a/a".subject == "a"',
  'Attributes::"registered".hasTag("region") && Attributes::"registered".getTag("region") == "eu"',
  'Attributes::"claimed".hasTag("region") || Attributes::"other" == context.claimed.attributes',
  'context.claimed.attributes.hasTag("__proto__")',
  "context.claimed has workload && context has claimed",
  overflowing,
  // Cedar alone evaluates it, and fails.
  `${overflowing} && decimal("1.5").lessThan(decimal("2.5"))`,
];

interface Policy {
  readonly effect: "permit" | "forbid";
  readonly principal?: string;
  readonly scope?: string;
  /** `when` and `unless`. */
  readonly clauses: string;
  readonly annotations?: string;
}

const textOf = ({ effect, principal = "principal", scope = "action", clauses }: Policy) =>
  `${effect} (${principal}, ${scope}, resource) ${clauses};`;

const layerNames = ["platform", "tenant"] as const satisfies readonly Layer[];
type Sets = Readonly<Record<Layer, readonly Policy[]>>;

const { schema } = await bundleOf(knowingFiles);

/**
 * Checks answers under the sets: compiled, by Cedar that is told what policies read, and by Cedar that is told everything;
 * cached and explained. Rejects if Cedar refuses the sets.
 */
async function judgeOf(sets: Sets) {
  const ids = (policies: readonly Policy[]) =>
    policies.map((policy, at) => `@id("p${at}") ${policy.annotations ?? ""} ${textOf(policy)}`).join("\n");
  const files: Files = {
    ...knowingFiles,
    "manifest.yaml": `${knowingFiles["manifest.yaml"]}disclosable: [attributes.owner, registered_at]\n`,
    "platform/all.cedar": ids(sets.platform),
    "default/all.cedar": ids(sets.tenant),
  };
  // Or Cedar alone would answer below.
  expect(checkBundle(await bundleOf(files)).disagreements).toEqual(new Map());
  const plain = await engineOf(files, {}, { evaluator: "cedar", isCached: false });
  const compiled = await engineOf(files, {}, { isCached: false });
  const cached = await engineOf(files);
  const layers = layerNames.map((name) => {
    const counted = plain.policies.filter(({ set }) => set === (name === "tenant" ? "default" : name));
    const answer = wholeAnswer(name, sets[name].map(textOf), schema);
    const counts = (at: number) => counted[at]?.effect === "forbid" || counted[at]?.countsOnBehalfOf === true;
    return (query: PolicyQuery) => {
      const whole = answer(query, query.onBehalfOf && counts);
      if (whole === undefined) throw new Error(`Cedar does not accept ${JSON.stringify(query)}`);
      return { name, outcome: whole.outcome, ids: whole.policies.map((at) => `p${at}`) };
    };
  });
  const judge = (query: PolicyQuery): PolicyDecision => {
    const answer = plain.decide(query);
    for (const engine of [compiled, cached]) expect(engine.decide(query)).toEqual(answer);
    const whole = layers.map((layer) => layer(query));
    const isByGuidance = answer.reasons.some((reason) => /^platform\/(guidance|obligation)-/.test(reason));
    if (!isByGuidance) expect(answer.reasons).toEqual(reasonsOf(whole));
    expect(answer.allow).toBe(!isByGuidance && whole.every(({ outcome }) => outcome === "allow"));

    const { layers: explained, guidance, policy_revision, ...decision } = plain.explain(query);
    expect(answer).toMatchObject({ ...decision, policyRevision: policy_revision });
    expect(guidance).toEqual(describeGuidance(answer.guidance));
    for (const [at, { outcome, policies }] of explained.entries()) {
      const decided = policies.filter((policy) => policy.decided);
      expect([outcome, decided.map(({ id }) => id).sort()]).toEqual([whole[at]?.outcome, whole[at]?.ids.sort()]);
      const isForbidden = outcome === "error" || decided.some(({ effect }) => effect === "forbid");
      for (const { id, effect, decided, unmet } of policies) {
        if (outcome === "error" && decided) expect(unmet.map(({ state }) => state)).toContain("unknown");
        // A permit that holds beside a forbid does not decide.
        else if (effect === "forbid" ? outcome !== "error" : !isForbidden)
          expect([id, unmet.length === 0]).toEqual([id, decided]);
        // What is behind a condition that holds can be looked at, so the first that is unmet is known to fail.
        if (!decided) expect(unmet[0]?.state ?? "fails", id).toBe("fails");
      }
    }
    return answer;
  };
  return { judge, release: () => plain.release() };
}

interface LayerAnswer {
  readonly name: Layer;
  readonly outcome: string;
  readonly ids: readonly string[];
}

/** Those of the layers that failed, or else of those that deny, or else of both. */
function reasonsOf(layers: readonly LayerAnswer[]): readonly string[] {
  const deciding = ["error", "deny", "allow"].map((of) => layers.filter(({ outcome }) => outcome === of));
  const ids = (deciding.find((some) => some.length > 0) ?? []).flatMap(({ name, outcome, ids }) =>
    [...(outcome === "error" ? ["evaluation-error"] : []), ...ids].map((id) => `${name}/${id}`),
  );
  return ids.sort();
}

const everything: Policy = { effect: "permit", clauses: "" };
const registeredNames = ["registered", "labels_ever", "application", "principal", "registered_at"];
const subjectNames = ["onBehalfOf", "type", "properties", "property_values"];

/** Two questions, the second of which differs from the first in one member of the caller, its attributes, or the rest. */
const pairs = fc.tuple(anyQueries, anyQueries, fc.nat()).map(([a, b, pick]): readonly PolicyQuery[] => {
  const names = [a, b].flatMap(({ caller, claimed }) => [
    ...[...Object.keys(caller), ...Object.keys(claimed), ...Object.keys(caller.attributes ?? {})],
    ...[...registeredNames, ...subjectNames],
  ]);
  const name = names[pick % names.length] as string;
  const mixed = <T extends object>(first: T, second: T): T => {
    const { [name as keyof T]: _, ...others } = first;
    return { ...others, ...(Object.hasOwn(second, name) && { [name]: second[name as keyof T] }) } as T;
  };
  const caller = { ...mixed(a.caller, b.caller) };
  if (name !== "attributes") {
    Object.assign(caller, { attributes: mixed(a.caller.attributes ?? {}, b.caller.attributes ?? {}) });
  }
  const registered = registeredNames.includes(name) ? b.registered : a.registered;
  const onBehalfOf = subjectNames.includes(name) ? b.onBehalfOf : a.onBehalfOf;
  const { registered: _, onBehalfOf: __, ...others } = a;
  return [
    a,
    {
      ...others,
      caller,
      claimed: mixed(a.claimed, b.claimed),
      ...(registered !== undefined && { registered: mixed(a.registered ?? registered, registered) }),
      ...(onBehalfOf !== undefined && { onBehalfOf: mixed(a.onBehalfOf ?? onBehalfOf, onBehalfOf) }),
    },
  ];
});

const varied: string[] = [];

test.each(conditions)("by itself, cached whatever one input changes: %s", async (condition) => {
  const sets = { platform: [everything], tenant: [everything, { effect: "forbid", clauses: `when { ${condition} }` }] };
  const { judge, release } = await judgeOf(sets as Sets);
  const seen = new Set<boolean>();
  fc.assert(
    fc.property(pairs, (pair) => {
      for (const query of pair) seen.add(judge(query).reasons.includes("tenant/p1"));
    }),
    { numRuns: draws(8, 30), endOnFailure: true },
  );
  release();
  if (seen.size === 2) varied.push(condition);
});

test("half of the conditions and more held for some questions, and for some not", () => {
  expect(varied.length).toBeGreaterThan(conditions.length / 2);
});

/** Obligations of inputs that are always there, often absent, and read by no condition beside them. */
const obliging = [
  '@obligation("note; kind = claimed.resource.kind") @alert("noted")',
  '@obligation("note; why = claimed.purpose") @obligation_2("tell; region = claimed.attributes.region")',
  '@obligation("tell; owner = registered.attributes.owner; at = registered.registered_at")',
  "@obligation(\"tell; clearance = principal.clearance; on_call = principal.on_call; region = 'eu'\")",
];
const condition = fc.constantFrom(...conditions);
// What always holds makes a policy impossible if it is negated.
const negatable = fc.constantFrom(...conditions.filter((text) => !text.startsWith("if ")));
const policy: fc.Arbitrary<Policy> = fc
  .record({
    effect: fc.constantFrom("permit", "forbid"),
    principal: fc.constantFrom(
      "principal",
      "principal",
      'principal == Principal::"tenant-a/a"',
      "principal is Principal",
    ),
    scope: fc.constantFrom("action", 'action == Action::"protect"', 'action in Action::"keyOperation"'),
    clauses: fc.oneof(
      condition.map((it) => `when { ${it} }`),
      negatable.map((it) => `unless { ${it} }`),
      fc.tuple(condition, negatable, negatable).map(([a, b, c]) => `when { ${a} } unless { (${b}) || (${c}) }`),
    ),
    annotations: fc.constantFrom(
      "",
      "",
      '@required_actions("tell")',
      '@handling_mode("a")',
      '@handling_mode("b")',
      ...obliging,
    ),
  })
  .map(({ annotations, ...rest }) => {
    const carries = rest.effect === "permit" || annotations.startsWith("@obligation");
    return { ...rest, annotations: carries ? annotations : "" };
  });
const layer = fc.array(policy, { minLength: 1, maxLength: 4 });
const understanding = fc
  .tuple(anyQueries, fc.subarray(["note", "tell"]))
  .map(([query, understoodObligations]): PolicyQuery => ({ ...query, understoodObligations }));

const question = {
  ...ask("protect", { content_size_bytes: 1 }, { attributes: { clearance: 0 } }),
  understoodObligations: ["note"],
};
const forSubject = { ...question, onBehalfOf: { type: "user", id: "a", properties: {}, property_values: [] } };
const one = (effect: Policy["effect"], text = "true", annotations = ""): Policy[] => [
  { effect, clauses: `when { ${text} }`, annotations },
];
const forA = one("permit", 'context has on_behalf_of && context.on_behalf_of.id == "a"');
const obliged = one("permit", "true", obliging[0]);

test("sets of both layers answer as Cedar with all inputs, in any combination of policies", async () => {
  const seen = { allowed: 0, obliged: 0, failed: 0, forSubject: 0 };
  await fc.assert(
    fc.asyncProperty(layer, layer, fc.array(understanding, { minLength: 25, maxLength: 25 }), async (...given) => {
      const [platform, tenant, asked] = given;
      const judged = await judgeOf({ platform, tenant }).catch((refusal: Error) => {
        expect(refusal.message).toContain("policy is impossible");
      });
      if (judged === undefined) return fc.pre(false);
      for (const query of [...asked, ...asked]) {
        const { allow, obligations, reasons } = judged.judge(query);
        if (allow) seen.allowed++;
        if (allow && obligations.length > 0) seen.obliged++;
        if (allow && query.onBehalfOf !== undefined) seen.forSubject++;
        if (reasons.some((reason) => reason.endsWith("evaluation-error"))) seen.failed++;
      }
      judged.release();
    }),
    {
      // A counterexample is policies with many questions: making it smaller takes minutes.
      endOnFailure: true,
      numRuns: draws(10, 60),
      examples: [
        [obliged, obliged, [question, forSubject]],
        [forA, forA, [forSubject]],
        [one("permit"), [...forA, ...one("permit")], [question, forSubject]],
        [forA, [...forA, ...one("permit", overflowing), ...one("forbid", "context.claimed has purpose")], [forSubject]],
        ...layerNames.flatMap((failing) =>
          (["permit", "forbid"] as const).map((effect): [Policy[], Policy[], PolicyQuery[]] => {
            const of = (name: Layer) => [...one("permit"), ...(name === failing ? one(effect, overflowing) : [])];
            return [of("platform"), of("tenant"), [question, forSubject]];
          }),
        ),
      ],
    },
  );
  expect(Math.min(...Object.values(seen)), JSON.stringify(seen)).toBeGreaterThan(0);
});

test.each([
  ["text that is not well-formed", { purpose: "\ud800" }],
  ["a number that is no integer", { content_size_bytes: 1.5 }],
])("values that Cedar cannot represent deny: %s", async (_name, claimed) => {
  const engine = await engineOf(openFiles);
  expect(engine.decide(ask("protect", claimed))).toMatchObject({
    allow: false,
    reasons: ["platform/evaluation-error", "tenant/evaluation-error"],
  });
});

const someOf = <T>(values: fc.Arbitrary<T>, names: readonly string[]): fc.Arbitrary<Record<string, T>> =>
  fc.record(Object.fromEntries(names.map((name) => [name, values])), { requiredKeys: [] }) as never;
const value = fc.constantFrom("a", "b", "c");
const guidance = fc.record({
  scalars: someOf(value, scalarNames),
  lists: someOf(
    fc.uniqueArray(value).map((list) => list.sort()),
    listNames,
  ),
}) as fc.Arbitrary<PolicyGuidance>;
const strictness = { handling_mode: ["a", "b", "c"], artifact_profile: ["c", "b", "a"] };

test("the merge of guidance does not depend on the order", () => {
  fc.assert(
    fc.property(fc.array(guidance), fc.func(fc.integer()), (parts, rank) => {
      const shuffled = parts.map((part) => ({ part, at: rank(part) })).sort((a, b) => a.at - b.at);
      expect(
        mergeGuidance(
          shuffled.map(({ part }) => part),
          strictness,
        ),
      ).toEqual(mergeGuidance(parts, strictness));
    }),
  );
});

test("the merge of guidance is idempotent", () => {
  fc.assert(
    fc.property(fc.array(guidance), (parts) => {
      const merged = mergeGuidance(parts, strictness);
      expect(mergeGuidance([...parts, ...parts], strictness)).toEqual(merged);
      expect(mergeGuidance([merged.guidance, merged.guidance], strictness).guidance).toEqual(merged.guidance);
      if (merged.conflicts.length === 0) {
        expect(mergeGuidance([...parts, merged.guidance], strictness)).toEqual(merged);
      }
    }),
  );
});
