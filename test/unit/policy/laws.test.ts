import fc from "fast-check";
import { expect, test } from "vitest";
import { listNames, type PolicyGuidance, scalarNames } from "../../../src/policy/guidance/annotations.ts";
import { mergeGuidance } from "../../../src/policy/guidance/guidance.ts";
import { draws } from "../../harness/draws.ts";
import { anyQueries, ask, declaringFiles, engineOf, type Files, openFiles, permitAll, queries } from "./harness.ts";
import {
  attributeConditions,
  onBehalfOfConditions,
  overflowing,
  conditions as plainConditions,
  registeredConditions,
} from "./pool.ts";

const conditions = [...plainConditions, ...attributeConditions, ...registeredConditions, ...onBehalfOfConditions];

interface Chosen {
  readonly effect: "permit" | "forbid";
  readonly condition: number;
  readonly scope: string;
  readonly annotation: string;
}

/** Obligations of inputs that are always there, often absent, and read by no condition beside them. */
const obliging = [
  '@obligation("note; kind = claimed.resource.kind") @alert("noted")',
  '@obligation("note; why = claimed.purpose") @obligation_2("tell; region = claimed.attributes.region")',
  '@obligation("tell; owner = registered.attributes.owner; at = registered.registered_at")',
  "@obligation(\"tell; clearance = principal.clearance; on_call = principal.on_call; region = 'eu'\")",
];

const policies: fc.Arbitrary<Chosen> = fc.record({
  effect: fc.constantFrom("permit", "forbid"),
  condition: fc.nat(conditions.length - 1),
  scope: fc.constantFrom("action", 'action == Action::"protect"', 'action in Action::"keyOperation"'),
  annotation: fc.constantFrom(
    ...["", '@required_actions("tell")', '@handling_mode("one")', '@handling_mode("two")'],
    ...obliging,
  ),
});

function text(chosen: readonly Chosen[]): string {
  return chosen
    .map(({ effect, condition, scope, annotation }, index) => {
      const given = effect === "permit" || annotation.startsWith("@obligation") ? annotation : "";
      return `@id("p${index}") ${given} ${effect} (principal, ${scope}, resource) when { ${conditions[condition] ?? overflowing} };`;
    })
    .join("\n");
}

function directory(platform: readonly Chosen[], tenant: readonly Chosen[]): Files {
  const manifest = `${declaringFiles["manifest.yaml"]}disclosable: [attributes.owner, registered_at]\n`;
  return {
    ...declaringFiles,
    "manifest.yaml": manifest,
    "platform/some.cedar": text(platform),
    "default/some.cedar": text(tenant),
  };
}

const layer = fc.array(policies, { minLength: 1, maxLength: 4 });

/** Layers that allow, deny and fail for certain, and questions of which they do: tests begin with them, lest luck decide what was tried. */
const always = conditions.indexOf('action == Action::"protect" || resource == Resource::"claimed"');
const certain: readonly (readonly Chosen[])[] = [
  { effect: "permit" as const, condition: always, annotation: obliging[0] as string },
  { effect: "forbid" as const, condition: always, annotation: "" },
  { effect: "forbid" as const, condition: conditions.length, annotation: "" },
].map((policy) => [{ ...policy, scope: "action" }]);
const [allowing, denying] = certain as [Chosen[], Chosen[]];
const question = ask("protect", { content_size_bytes: 1 }, { attributes: { clearance: 0 } });
const plainly = [{ ...question, understoodObligations: ["note"] }];

const uncached = { cachedDecisions: 0 };

/** Where a counterexample is policies with many questions, making it smaller takes minutes. */
const asFound = { endOnFailure: true };

const registeredNames = ["registered", "labels_ever", "application", "principal", "registered_at"];
const subjectNames = ["onBehalfOf", "type", "properties", "property_values"];

test("adding a forbid never turns deny into allow", async () => {
  let turned = 0;
  const forbid = policies.map((policy): Chosen => ({ ...policy, effect: "forbid" }));
  await fc.assert(
    fc.asyncProperty(
      layer,
      layer,
      forbid,
      fc.boolean(),
      fc.array(anyQueries, { minLength: 15, maxLength: 15 }),
      async (...given) => {
        const [platform, tenant, added, toPlatform, asked] = given;
        const before = await engineOf(directory(platform, tenant), {}, uncached);
        const wider = toPlatform ? directory([...platform, added], tenant) : directory(platform, [...tenant, added]);
        const after = await engineOf(wider, {}, uncached);
        for (const query of asked) {
          const [first, second] = [before.decide(query).allow, after.decide(query).allow];
          expect(second && !first).toBe(false);
          if (first !== second) turned++;
        }
        before.release();
        after.release();
      },
    ),
    { ...asFound, numRuns: draws(10, 20), examples: [[allowing, allowing, denying[0] as Chosen, true, plainly]] },
  );
  expect(turned, "no forbid ever applied").toBeGreaterThan(0);
});

const understanding = fc
  .tuple(anyQueries, fc.subarray(["note", "tell"]))
  .map(([query, understoodObligations]) => ({ ...query, understoodObligations }));

test("a cached answer equals the uncached one", async () => {
  let allowed = 0;
  let obliged = 0;
  await fc.assert(
    fc.asyncProperty(layer, layer, fc.array(understanding, { minLength: 50, maxLength: 50 }), async (...given) => {
      const [platform, tenant, asked] = given;
      const cached = await engineOf(directory(platform, tenant));
      const plain = await engineOf(directory(platform, tenant), {}, uncached);
      for (const query of [...asked, ...asked]) {
        const answer = cached.decide(query);
        expect(answer).toEqual(plain.decide(query));
        if (answer.allow) allowed++;
        if (answer.allow && answer.obligations.length > 0) obliged++;
      }
      cached.release();
      plain.release();
    }),
    {
      ...asFound,
      numRuns: draws(8, 15),
      examples: [[allowing, allowing, plainly]],
    },
  );
  expect(allowed).toBeGreaterThan(0);
  expect(obliged).toBeGreaterThan(0);
});

test("a cached answer equals the uncached one for every single condition, whatever one input changes", async () => {
  for (const condition of conditions.keys()) {
    const chosen: Chosen[] = [{ effect: "forbid", condition, scope: "action", annotation: "" }];
    const [cached, plain] = [
      await engineOf(directory(chosen, chosen)),
      await engineOf(directory(chosen, chosen), {}, uncached),
    ];
    const mixed = fc.tuple(anyQueries, anyQueries, fc.nat()).map(([a, b, pick]) => {
      // The second question differs from the first in one member of the caller, its attributes, or what is claimed.
      const names = [a, b].flatMap(({ caller, claimed }) => [
        ...Object.keys(caller),
        ...Object.keys(claimed),
        ...Object.keys(caller.attributes ?? {}),
        ...registeredNames,
        ...subjectNames,
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
    fc.assert(
      fc.property(mixed, (pair) => {
        for (const query of pair) expect(cached.decide(query), conditions[condition]).toEqual(plain.decide(query));
      }),
      { ...asFound, numRuns: draws(6, 50) },
    );
    cached.release();
    plain.release();
  }
});

test.each([
  ["platform", "forbid"],
  ["platform", "permit"],
  ["tenant", "forbid"],
  ["tenant", "permit"],
] as const)("an error in a policy of the %s layer denies: %s", async (place, effect) => {
  const folder = place === "platform" ? "platform" : "default";
  const failing = `@id("failing") ${effect} (principal, action, resource) when { ${overflowing} };`;
  const engine = await engineOf({ ...openFiles, [`${folder}/failing.cedar`]: failing });
  fc.assert(
    fc.property(queries, (query) => {
      const fails = (query.claimed.content_size_bytes ?? 0) > 0;
      const { allow, reasons } = engine.decide(query);
      expect(allow).toBe(!fails);
      if (fails) expect(reasons).toEqual([`${place}/evaluation-error`, `${place}/failing`]);
    }),
  );
});

test.each([
  ["text that is not well-formed", { purpose: "\ud800" }],
  ["a number that is no integer", { content_size_bytes: 1.5 }],
])("what Cedar cannot hold denies: %s", async (_name, claimed) => {
  const engine = await engineOf(openFiles);
  expect(engine.decide(ask("protect", claimed))).toMatchObject({
    allow: false,
    reasons: ["platform/evaluation-error", "tenant/evaluation-error"],
  });
});

test("labels named like attributes change nothing, nor attributes named like inputs", async () => {
  const residency = `@id("b") forbid (principal, action, resource)
    when { context.claimed.attributes.hasTag("region") && context.claimed.attributes.getTag("region") != "eu" };
    @id("c") forbid (principal, action, resource) when { context.claimed has purpose };`;
  const engine = await engineOf({ ...openFiles, "default/b.cedar": residency });
  let denied = 0;
  fc.assert(
    fc.property(queries, ({ claimed, ...query }) => {
      const plain = engine.decide({ ...query, claimed });
      const labels = [...claimed.labels, "region", "region=us", "us", "purpose", ...Object.keys(claimed.attributes)];
      const attributes = { ...claimed.attributes, purpose: "x", labels: "x", "context.claimed.purpose": "x" };
      expect(engine.decide({ ...query, claimed: { ...claimed, labels, attributes } })).toEqual(plain);
      if (!plain.allow) denied++;
    }),
    { examples: [[ask("protect", { attributes: { region: "us" } })]] },
  );
  expect(denied).toBeGreaterThan(0);
});

test("one layer's permit does not stand in for the other's", async () => {
  const nothing = '@id("none") permit (principal, action, resource) when { principal.tenant == "nobody" };';
  for (const folder of ["platform", "default"]) {
    const engine = await engineOf({
      ...openFiles,
      [`${folder}/all.cedar`]: nothing,
      [`${folder}/x.cedar`]: "// none\n",
    });
    expect(engine.decide(ask("protect"))).toMatchObject({ allow: false, reasons: [] });
  }
  expect((await engineOf({ ...openFiles, "default/all.cedar": permitAll })).decide(ask("protect")).allow).toBe(true);
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
