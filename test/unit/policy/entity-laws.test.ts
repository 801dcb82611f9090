/** What requests have of entities is less than all. Here Cedar answers as it does when it is told everything, validated. */
import {
  type EntityJson,
  preparsePolicySet,
  preparseSchema,
  statefulIsAuthorized,
} from "@cedar-policy/cedar-wasm/nodejs";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Caller } from "../../../src/base/caller.ts";
import type { PrincipalId, TenantId } from "../../../src/base/ids.ts";
import { loadPolicyDirectory } from "../../../src/policy/check/check.ts";
import { describeGuidance } from "../../../src/policy/guidance/guidance.ts";
import type { Claimed, PolicyQuery } from "../../../src/policy/model/decision.ts";
import { draws } from "../../harness/draws.ts";
import { entityConditions, type Json, knowingFiles, labels, others } from "./entities.ts";
import { engineOf, memoryFileSystem, queries } from "./harness.ts";

const names = fc.array(fc.constantFrom("classified", "secret", "public", "unheard-of"), { maxLength: 2 });
const own = fc.record({
  registered: names,
  ever: names,
  labels: fc.array(fc.constantFrom("classified", "secret", "confidential", "public", "eu", "unheard-of"), {
    maxLength: 3,
  }),
  application: fc.constantFrom("payroll", "viewer", "unheard-of"),
  key: fc.constantFrom("kms://payroll", "kms://other", "kms://unheard-of", undefined),
  kind: fc.constantFrom("rooms", "1", "record"),
  principalId: fc.constantFrom("a", "b", "c") as fc.Arbitrary<string> as fc.Arbitrary<PrincipalId>,
  tenantId: fc.constantFrom("tenant-a", "tenant-b") as fc.Arbitrary<string> as fc.Arbitrary<TenantId>,
});

/** Questions that refer to the entities of the directory, and to others. */
const asked: fc.Arbitrary<PolicyQuery> = fc.tuple(queries, own).map(([query, it]): PolicyQuery => {
  const caller: Caller = { ...query.caller, principalId: it.principalId, tenantId: it.tenantId };
  const { key_reference: _, ...claimed } = query.claimed;
  const registered = query.registered && {
    ...query.registered,
    labels: it.registered,
    labels_ever: [...it.registered, ...it.ever],
    application: "viewer",
  };
  return {
    ...query,
    caller,
    ...(registered !== undefined && { registered }),
    claimed: {
      ...claimed,
      labels: it.labels,
      workload: { ...claimed.workload, application: it.application },
      resource: { ...claimed.resource, kind: it.kind },
      ...(it.key !== undefined && { key_reference: it.key }),
    } as Claimed,
  };
});

interface Stored {
  readonly uid: { readonly type: string; readonly id: string };
  readonly attrs: Json;
  readonly parents: readonly Stored["uid"][];
}
const stored = [...labels, ...others] as unknown as readonly Stored[];
const reference = (type: string, id: string) =>
  stored.some(({ uid }) => uid.type === type && uid.id === id) ? { type, id } : undefined;

/** Labels and all that they are in, straight from the files. */
function within(uid: Stored["uid"]): readonly Stored["uid"][] {
  const parents = stored.find((it) => it.uid.type === uid.type && it.uid.id === uid.id)?.parents ?? [];
  return [uid, ...parents.flatMap(within)];
}

function labelSet(id: string, names: readonly string[]): EntityJson {
  const known = [...new Set(names)].flatMap((name) => reference("Org::Label", name) ?? []);
  const unknown = known.length < new Set(names).size;
  const attributes = known.map(({ id }) => (stored.find(({ uid }) => uid.id === id) as Stored).attrs);
  const ranks = attributes.flatMap(({ rank }) => (rank === undefined ? [] : [rank as number]));
  const all = (name: string) => attributes.flatMap((it) => (it[name] ?? []) as string | string[]);
  const isSame = (a: Stored["uid"], b: Stored["uid"]) => a.type === b.type && a.id === b.id;
  const [first] = known;
  const common =
    unknown || first === undefined
      ? []
      : within(first).filter((it) => known.every((label) => within(label).some((at) => isSame(at, it))));
  return {
    uid: { type: "LabelSet", id },
    attrs: {
      known: known.map((__entity) => ({ __entity })),
      unknown,
      common: common.filter(({ type }) => type === "Org::Label").map((__entity) => ({ __entity })),
      ...(unknown || ranks.length === 0 ? {} : { max_rank: Math.max(...ranks), min_rank: Math.min(...ranks) }),
      ...(unknown ? {} : { all_roles: all("roles"), all_area: all("area") }),
    },
    parents: known,
  };
}

/** Cedar's own answer to the whole question, with every entity, under the schema. */
function validatedAnswer({ caller, action, claimed, registered }: PolicyQuery): boolean {
  const { attributes, ...plain } = claimed;
  const principal = { type: "Principal", id: `${caller.tenantId}/${caller.principalId}` };
  const person = reference("Org::Person", principal.id);
  const application = reference("Org::Application", claimed.workload.application);
  const key = reference("Org::Key", claimed.key_reference ?? "");
  const answer = statefulIsAuthorized({
    principal,
    action: { type: "Action", id: action },
    resource: { type: "Resource", id: "claimed" },
    context: {
      claimed: {
        ...plain,
        labels: [...claimed.labels],
        resource: { ...claimed.resource } as never,
        workload: {
          ...claimed.workload,
          ...(application && { application_entity: { __entity: application } }),
        } as never,
        attributes: { __entity: { type: "Attributes", id: "claimed" } },
        label_set: { __entity: { type: "LabelSet", id: "claimed.label_set" } },
        ...(key && { key_entity: { __entity: key } }),
      },
      ...(registered && {
        registered: {
          ...(registered as object),
          attributes: { __entity: { type: "Attributes", id: "registered" } },
          label_set: { __entity: { type: "LabelSet", id: "registered.label_set" } },
          label_set_ever: { __entity: { type: "LabelSet", id: "registered.label_set_ever" } },
          application_entity: { __entity: { type: "Org::Application", id: "viewer" } },
        },
      }),
    },
    entities: [
      ...(stored as unknown as EntityJson[]),
      labelSet("claimed.label_set", claimed.labels),
      labelSet("registered.label_set", registered?.labels ?? []),
      labelSet("registered.label_set_ever", registered?.labels_ever ?? []),
      { uid: { type: "Attributes", id: "registered" }, attrs: {}, parents: [], tags: { ...registered?.attributes } },
      { uid: { type: "Attributes", id: "claimed" }, attrs: {}, parents: [], tags: { ...attributes } },
      {
        uid: principal,
        attrs: {
          tenant: caller.tenantId,
          principal_id: caller.principalId,
          subject: caller.subject,
          scopes: [...caller.scopes],
          auth_source: caller.authSource,
          ...(caller.attributes as object),
          ...(person && { entity: { __entity: person } }),
        },
        parents: [],
      },
    ],
    preparsedPolicySetId: "validated",
    preparsedSchemaName: "validated",
    validateRequest: true,
  });
  if (answer.type === "failure") throw new Error(answer.errors.map(({ message }) => message).join("\n"));
  expect(answer.response.diagnostics.errors).toEqual([]);
  return answer.response.decision === "allow";
}

const rule = (condition: string) => `@id("rule") permit (principal, action, resource) when { ${condition} };`;
const filesWith = (condition: string) => ({ ...knowingFiles, "default/all.cedar": rule(condition) });

const varied: string[] = [];

test.each(entityConditions)(
  "%s: as Cedar answers that is told everything; cached, uncached and explained",
  async (condition) => {
    const files = filesWith(condition);
    const loaded = await loadPolicyDirectory("/policies", memoryFileSystem(files));
    const schema = loaded.bundle?.schema as string;
    expect(preparseSchema("validated", schema).type).toBe("success");
    expect(preparsePolicySet("validated", { staticPolicies: rule(condition) }).type).toBe("success");
    const cached = await engineOf(files);
    const plain = await engineOf(files, {}, { cachedDecisions: 0 });
    const answers = new Set<boolean>();
    fc.assert(
      fc.property(asked, (query) => {
        const answer = plain.decide(query);
        expect(answer.reasons).not.toContain("tenant/evaluation-error");
        expect(answer.allow).toBe(validatedAnswer(query));
        expect(cached.decide(query)).toEqual(answer);
        const { layers, guidance, policy_revision, ...decision } = plain.explain(query);
        expect(answer).toMatchObject({ ...decision, policyRevision: policy_revision });
        expect(guidance).toEqual(describeGuidance(answer.guidance));
        expect(layers[1]?.policies[0]?.unmet.length === 0).toBe(answer.allow);
        answers.add(answer.allow);
      }),
      { numRuns: draws(10, 25), endOnFailure: true },
    );
    cached.release();
    plain.release();
    if (answers.size === 2) varied.push(condition);
  },
);

test("most of the conditions held for some questions, and for some not", () => {
  expect(varied.length).toBeGreaterThan((entityConditions.length * 2) / 3);
});

test("a cached answer equals the uncached one, whatever policies read together", async () => {
  const policies = fc.array(fc.tuple(fc.constantFrom("permit", "forbid"), fc.constantFrom(...entityConditions)), {
    minLength: 2,
    maxLength: 5,
  });
  await fc.assert(
    fc.asyncProperty(policies, fc.array(asked, { minLength: 40, maxLength: 40 }), async (chosen, questions) => {
      const text = chosen.map(
        ([effect, condition], index) =>
          `@id("p${index}") ${effect} (principal, action, resource) when { ${condition} };`,
      );
      const files = { ...knowingFiles, "default/some.cedar": text.join("\n") };
      const cached = await engineOf(files);
      const plain = await engineOf(files, {}, { cachedDecisions: 0 });
      for (const query of [...questions, ...questions]) expect(cached.decide(query)).toEqual(plain.decide(query));
      cached.release();
      plain.release();
    }),
    { numRuns: 5, endOnFailure: true },
  );
});
