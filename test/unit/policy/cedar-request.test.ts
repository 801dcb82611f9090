/**
 * What Cedar is told of a question is less than all, and without the schema. Here it answers as it does when it is told
 * everything, the schema included, and validates it.
 */
import {
  type AuthorizationAnswer,
  policyToJson,
  preparsePolicySet,
  preparseSchema,
  statefulIsAuthorized,
} from "@cedar-policy/cedar-wasm/nodejs";
import fc from "fast-check";
import { expect, test } from "vitest";
import { inputsRead, joinInputs, namedActions, scopeActions } from "../../../src/policy/check/reads.ts";
import { cedarRequestBuilder, fullRequestBuilder } from "../../../src/policy/evaluate/cedar-request.ts";
import { PreparedSet, type SetResult } from "../../../src/policy/evaluate/prepared-set.ts";
import { programOf } from "../../../src/policy/evaluate/program.ts";
import type { PolicyQuery } from "../../../src/policy/model/decision.ts";
import { hasSchemaTypes, inputCatalogue } from "../../../src/policy/model/inputs.ts";
import { schemaFor } from "../../../src/policy/model/schema.ts";
import { draws } from "../../harness/draws.ts";
import { anyQueries, ask, declaredAttributes, permitAll } from "./harness.ts";
import { attributeConditions, conditions, onBehalfOfConditions, overflowing, registeredConditions } from "./pool.ts";

const declared = { callerAttributes: declaredAttributes };
const catalogue = inputCatalogue(declared);
preparseSchema("schema", schemaFor(declared));

/** The whole query, value by value, as the table in `inputs.ts` says. */
function everything({ caller, action, claimed, registered, onBehalfOf }: PolicyQuery) {
  const { workload, resource } = claimed;
  const { attributes, ...others } = claimed;
  const principal = { type: "Principal", id: `${caller.tenantId}/${caller.principalId}` };
  return {
    principal,
    action: { type: "Action", id: action },
    resource: { type: "Resource", id: "claimed" },
    context: {
      claimed: { ...others, workload, resource, attributes: { __entity: { type: "Attributes", id: "claimed" } } },
      ...(registered && {
        registered: { ...registered, attributes: { __entity: { type: "Attributes", id: "registered" } } },
      }),
      ...(onBehalfOf && {
        on_behalf_of: { ...onBehalfOf, properties: { __entity: { type: "Attributes", id: "on_behalf_of" } } },
      }),
    },
    entities: [
      {
        uid: principal,
        attrs: {
          tenant: caller.tenantId,
          principal_id: caller.principalId,
          subject: caller.subject,
          scopes: caller.scopes,
          auth_source: caller.authSource,
          ...caller.attributes,
        },
        parents: [],
      },
      { uid: { type: "Attributes", id: "claimed" }, attrs: {}, parents: [], tags: attributes },
      ...(registered
        ? [{ uid: { type: "Attributes", id: "registered" }, attrs: {}, parents: [], tags: registered.attributes }]
        : []),
      ...(onBehalfOf
        ? [{ uid: { type: "Attributes", id: "on_behalf_of" }, attrs: {}, parents: [], tags: onBehalfOf.properties }]
        : []),
    ],
  };
}

/** Cedar's answers to whole questions, under the schema; undefined if it does not accept the question. */
function validated(policies: readonly string[]): (query: PolicyQuery) => SetResult | undefined {
  const staticPolicies = Object.fromEntries(policies.map((text, position) => [String(position), text]));
  // Parsed once for all questions: that takes longer than an answer.
  preparsePolicySet("validated", { staticPolicies });
  return (query) => {
    const answer = answerOf({
      ...(everything(query) as unknown as Pick<Call, "principal" | "action" | "resource" | "context" | "entities">),
      preparsedPolicySetId: "validated",
      preparsedSchemaName: "schema",
      validateRequest: true,
    });
    if (answer === undefined || answer.type === "failure") return undefined;
    const { decision, diagnostics } = answer.response;
    const failing = diagnostics.errors.map(({ policyId }) => Number(policyId));
    return failing.length > 0
      ? sorted({ outcome: "error", policies: failing })
      : sorted({ outcome: decision, policies: diagnostics.reason.map(Number) });
  };
}

type Call = Parameters<typeof statefulIsAuthorized>[0];

function answerOf(call: Call): AuthorizationAnswer | undefined {
  try {
    return statefulIsAuthorized(call);
  } catch {
    return undefined; // text that has no form in UTF-8
  }
}

function sorted({ outcome, policies }: SetResult): SetResult {
  return { outcome, policies: [...policies].sort((a, b) => a - b) };
}

/** The service's answer: a set prepared once, and the inputs that the policies for the action read. */
function toldAnswer(policies: readonly string[], query: PolicyQuery): SetResult {
  const programs = policies.map((text) => {
    const parsed = policyToJson(text);
    if (parsed.type === "failure") throw new Error(parsed.errors[0]?.message);
    return programOf(parsed.json);
  });
  const asked = programs.filter((program) => scopeActions(program).has(query.action));
  const read = joinInputs(
    asked.map((program) => inputsRead(program, catalogue)),
    catalogue,
  );
  const tell = cedarRequestBuilder(read, asked.flatMap(namedActions), catalogue);
  const set = new PreparedSet(policies);
  const verdict = set.evaluate(tell(query));
  expect(sorted(set.evaluate(fullRequestBuilder(catalogue)(query)))).toEqual(sorted(verdict));
  set.release();
  return sorted(verdict);
}

const groups = [
  'action in Action::"dataOperation"',
  'Action::"access" in Action::"dataOperation" && context.claimed.content_digest_present',
  'action in [Action::"keyOperation", Action::"protect"]',
  'Action::"keyOperation" in Action::"keyOperation" || principal.subject == "a"',
  'Principal::"tenant-a/a" has subject && Principal::"tenant-a/a".subject == "a"',
  'Attributes::"registered".hasTag("region") && Attributes::"registered".getTag("region") == "eu"',
  'Attributes::"claimed".hasTag("region") || Attributes::"other" == context.claimed.attributes',
  'context.claimed.attributes.hasTag("__proto__")',
  "context.claimed has workload && context has claimed",
];
const all = [
  ...conditions,
  ...attributeConditions,
  ...registeredConditions,
  ...onBehalfOfConditions,
  ...groups,
  overflowing,
];
const policy = fc.record({
  effect: fc.constantFrom("permit", "forbid"),
  scope: fc.constantFrom("action", 'action == Action::"protect"', 'action in Action::"keyOperation"'),
  principal: fc.constantFrom("principal", 'principal == Principal::"tenant-a/a"', "principal is Principal"),
  condition: fc.constantFrom(...all),
});

/** Ends in the outcome that the policy's effect and condition name: a random search may miss one of them. */
function drawn(effect: "permit" | "forbid", condition: string): [object[], PolicyQuery] {
  const question = ask("protect", { content_size_bytes: 1 }, { attributes: { clearance: 0 } });
  return [[{ effect, scope: "action", principal: "principal", condition }], question];
}

test("the inputs that policies read make the answer that all inputs make, under the schema and validated", () => {
  const outcomes = new Set<string>();
  fc.assert(
    fc.property(fc.array(policy, { maxLength: 5 }), anyQueries, (chosen, query) => {
      const policies = [
        permitAll,
        ...chosen.map(
          ({ effect, scope, principal, condition }) =>
            `${effect} (${principal}, ${scope}, resource) when { ${condition} };`,
        ),
      ];
      const answer = toldAnswer(policies, query);
      expect(answer, policies.join("\n")).toEqual(validated(policies)(query));
      outcomes.add(answer.outcome);
    }),
    {
      numRuns: draws(150, 600),
      examples: [drawn("permit", "true"), drawn("forbid", "true"), drawn("permit", overflowing)],
    },
  );
  expect([...outcomes].sort()).toEqual(["allow", "deny", "error"]);
});

test.each(all)("by itself: %s", (condition) => {
  const policies = [`permit (principal, action, resource) when { ${condition} };`];
  const validatedAnswer = validated(policies);
  fc.assert(
    fc.property(anyQueries, (query) => {
      expect(toldAnswer(policies, query)).toEqual(validatedAnswer(query));
    }),
    { numRuns: draws(4, 40) },
  );
});

const strange: readonly unknown[] = [
  ...[
    undefined,
    null,
    true,
    "",
    "a",
    "\ud800",
    "a\udfff",
    "\0",
    "😀",
    {},
    [],
    ["a", "a"],
    ["a", 1],
    ["\ud800"],
    [null],
  ],
  ...[
    0,
    -0,
    -1,
    1.5,
    Number.NaN,
    2 ** 53,
    2 ** 63 - 1024,
    2 ** 63,
    -(2 ** 63) + 1024,
    -(2 ** 63),
    -(2 ** 63) - 2048,
    1e21,
    -1e21,
  ],
  ...[{ __entity: { type: "Principal", id: "a" } }, { __extn: { fn: "decimal", arg: "1.0" } }, new Array(1)],
];
const full = ask(
  "protect",
  {
    workload: { application: "a", environment: "b", component: "c" },
    resource: { kind: "a", id: "b", mime_type: "c" },
    purpose: "a",
    labels: ["a"],
    attributes: { a: "b" },
    artifact_profile: "tdf",
    content_size_bytes: 1,
    key_reference: "a",
  },
  { attributes: { clearance: 1, constructor: "a", on_call: true, roles: ["a"] } },
);
const withRegistered: PolicyQuery = {
  ...full,
  registered: {
    labels: ["a"],
    labels_ever: ["a"],
    attributes: { a: "b" },
    resource: { kind: "a", id: "b" },
    artifact_profile: "tdf",
    key_reference: "a",
    application: "a",
    principal: "a",
    citation_matched: true,
    registered_at: 1,
  },
};

/** The question with the member at the path set to the value, or left out. */
function withMember([name, ...rest]: readonly string[], value: unknown, within: object): object {
  const { [name as string]: old, ...others } = within as Record<string, unknown>;
  if (rest.length > 0) return { ...others, [name as string]: withMember(rest, value, old as object) };
  return value === undefined ? others : { ...others, [name as string]: value };
}

const paths = [
  ...["tenantId", "principalId", "subject", "scopes", "authSource"].map((name) => ["caller", name]),
  ...Object.keys(declaredAttributes).map((name) => ["caller", "attributes", name]),
  ...["application", "environment", "component"].map((name) => ["claimed", "workload", name]),
  ...["kind", "id", "mime_type"].map((name) => ["claimed", "resource", name]),
  ...["purpose", "labels", "artifact_profile", "content_digest_present"].map((name) => ["claimed", name]),
  ...["content_size_bytes", "key_reference"].map((name) => ["claimed", name]),
  ...["a", "b", "__entity", "__proto__", "\ud800"].map((name) => ["claimed", "attributes", name]),
  ...["labels", "labels_ever", "artifact_profile", "key_reference"].map((name) => ["registered", name]),
  ...["application", "principal", "citation_matched", "registered_at"].map((name) => ["registered", name]),
  ...["kind", "id"].map((name) => ["registered", "resource", name]),
  ...["a", "__entity", "\ud800"].map((name) => ["registered", "attributes", name]),
];

test.each(paths.map((path) => [path]))("what the schema refuses at %j is not told, and all else is", (path) => {
  const validatedAnswer = validated([permitAll]);
  const verdicts = strange.map((value) => {
    const query = withMember(path, value, withRegistered) as PolicyQuery;
    const accepted = validatedAnswer(query) !== undefined;
    expect(hasSchemaTypes(query, catalogue), `${String(value)} ${JSON.stringify(value)}`).toBe(accepted);
    return accepted;
  });
  expect(new Set(verdicts).size, "both happen").toBe(2);
});

test.each(["claimed", "registered"])("%s attributes that are no map are not told", (at) => {
  for (const attributes of [null, [], ["a"], "a", 1]) {
    const query = withMember([at, "attributes"], attributes, withRegistered) as PolicyQuery;
    expect(hasSchemaTypes(query, catalogue)).toBe(false);
  }
});

test("what was registered is told as a record, or not at all", () => {
  for (const registered of [null, [], "a", 0, false, {}])
    expect(hasSchemaTypes({ ...full, registered } as unknown as PolicyQuery, catalogue)).toBe(false);
  expect(hasSchemaTypes(full, catalogue)).toBe(true);
  expect(hasSchemaTypes(withRegistered, catalogue)).toBe(true);
});
