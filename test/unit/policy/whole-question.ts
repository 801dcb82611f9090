/** Cedar's own answer to a whole question: every value and every entity, under the schema, against which it validates. */
import {
  type EntityJson,
  preparsePolicySet,
  preparseSchema,
  statefulIsAuthorized,
  type TypeAndId,
} from "@cedar-policy/cedar-wasm/nodejs";
import type { SetResult } from "../../../src/policy/evaluate/prepared-set.ts";
import type { PolicyQuery } from "../../../src/policy/model/decision.ts";
import { type Json, labels, others } from "./entities.ts";

type Call = Parameters<typeof statefulIsAuthorized>[0];

/** What Cedar finds of a set; undefined if it does not accept the question. Policies that do not count have no effect. */
export type WholeAnswer = (query: PolicyQuery, counts?: (position: number) => boolean) => SetResult | undefined;

/**
 * Prepares the set under a name, which a later set of the same name replaces.
 *
 * @param schema of a directory with the entities of `entities.ts`
 */
export function wholeAnswer(name: string, policies: readonly string[], schema: string): WholeAnswer {
  const staticPolicies = Object.fromEntries(policies.map((text, position) => [String(position), text]));
  for (const prepared of [preparseSchema("whole", schema), preparsePolicySet(name, { staticPolicies })])
    if (prepared.type === "failure") throw new Error(prepared.errors[0]?.message);
  return (query, counts = () => true) => {
    const answer = answerTo(query, name);
    if (answer === undefined || answer.type === "failure") return undefined;
    const { decision, diagnostics } = answer.response;
    const failing = diagnostics.errors.map(({ policyId }) => Number(policyId)).filter(counts);
    const deciding = diagnostics.reason.map(Number).filter((position) => decision === "deny" || counts(position));
    if (failing.length > 0) return { outcome: "error", policies: failing };
    return { outcome: decision === "allow" && deciding.length > 0 ? "allow" : "deny", policies: deciding };
  };
}

function answerTo(query: PolicyQuery, preparsedPolicySetId: string) {
  try {
    const prepared = { preparsedPolicySetId, preparsedSchemaName: "whole", validateRequest: true };
    return statefulIsAuthorized({ ...everything(query), ...prepared } as unknown as Call);
  } catch {
    return undefined; // text that has no form in UTF-8, and members of no type at all
  }
}

/** The whole query, value by value, as the table in `inputs.ts` says. */
function everything({ caller, action, claimed, registered, onBehalfOf }: PolicyQuery) {
  const principal = { type: "Principal", id: `${caller.tenantId}/${caller.principalId}` };
  const tagsOf = (id: string, tags: unknown) => ({ uid: { type: "Attributes", id }, attrs: {}, parents: [], tags });
  const { attributes: _, ...own } = caller;
  return {
    principal,
    action: { type: "Action", id: action },
    resource: { type: "Resource", id: "claimed" },
    context: {
      claimed: {
        ...claimed,
        workload: { ...claimed.workload, ...known("application_entity", "Application", claimed.workload.application) },
        attributes: entity("Attributes", "claimed"),
        label_set: entity("LabelSet", "claimed.label_set"),
        ...known("key_entity", "Key", claimed.key_reference),
      },
      ...(registered && {
        registered: {
          ...registered,
          attributes: entity("Attributes", "registered"),
          label_set: entity("LabelSet", "registered.label_set"),
          label_set_ever: entity("LabelSet", "registered.label_set_ever"),
          ...known("application_entity", "Application", registered.application),
        },
      }),
      ...(onBehalfOf && { on_behalf_of: { ...onBehalfOf, properties: entity("Attributes", "on_behalf_of") } }),
    },
    entities: [
      ...stored,
      labelSet("claimed.label_set", claimed.labels),
      labelSet("registered.label_set", registered?.labels ?? []),
      labelSet("registered.label_set_ever", registered?.labels_ever ?? []),
      tagsOf("claimed", claimed.attributes),
      ...(registered ? [tagsOf("registered", registered.attributes)] : []),
      ...(onBehalfOf ? [tagsOf("on_behalf_of", onBehalfOf.properties)] : []),
      {
        uid: principal,
        attrs: {
          ...{ tenant: own.tenantId, principal_id: own.principalId, subject: own.subject },
          ...{ scopes: own.scopes, auth_source: own.authSource, ...caller.attributes },
          ...known("entity", "Person", principal.id),
        },
        parents: [],
      },
    ],
  };
}

const entity = (type: string, id: string) => ({ __entity: { type, id } });

interface Stored {
  readonly uid: TypeAndId;
  readonly attrs: Json;
  readonly parents: readonly TypeAndId[];
}
const stored = [...labels, ...others] as unknown as readonly Stored[];

function find(type: string, id: unknown): Stored | undefined {
  return stored.find(({ uid }) => uid.type === `Org::${type}` && uid.id === id);
}

/** The member that refers to the entity, if the files have it. */
function known(name: string, type: string, id: unknown): Json {
  const found = find(type, id);
  return found === undefined ? {} : { [name]: { __entity: found.uid } };
}

/** An entity and all that it is in, straight from the files. */
function within(uid: TypeAndId): readonly TypeAndId[] {
  const parents = stored.find((it) => it.uid.type === uid.type && it.uid.id === uid.id)?.parents ?? [];
  return [uid, ...parents.flatMap(within)];
}

function labelSet(id: string, given: readonly string[]): EntityJson {
  const names = [...new Set(given)];
  const found = names.flatMap((name) => find("Label", name) ?? []);
  const unknown = found.length < names.length;
  const ranks = found.flatMap(({ attrs }) => (attrs.rank === undefined ? [] : [attrs.rank as number]));
  const all = (name: string) => found.flatMap(({ attrs }) => (attrs[name] ?? []) as string | string[]);
  const isSame = (a: TypeAndId, b: TypeAndId) => a.type === b.type && a.id === b.id;
  const [first] = found;
  const common =
    unknown || first === undefined
      ? []
      : within(first.uid).filter((it) => found.every(({ uid }) => within(uid).some((at) => isSame(at, it))));
  return {
    uid: { type: "LabelSet", id },
    attrs: {
      known: found.map(({ uid }) => ({ __entity: uid })),
      unknown,
      common: common.filter(({ type }) => type === "Org::Label").map((__entity) => ({ __entity })),
      ...(unknown || ranks.length === 0 ? {} : { max_rank: Math.max(...ranks), min_rank: Math.min(...ranks) }),
      ...(unknown ? {} : { all_roles: all("roles"), all_area: all("area") }),
    },
    parents: found.map(({ uid }) => uid),
  };
}
