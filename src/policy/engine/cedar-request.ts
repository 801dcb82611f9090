/**
 * Builds Cedar's authorization request, with the inputs that the policies read and no others: the size of the request
 * is most of what a decision costs. `reads.ts` never names too few inputs, so no decision depends on one left out.
 *
 * The request goes to Cedar without the schema, which Cedar would check every value against each time. What the schema
 * would ensure is ensured here and in `input-types.ts`:
 *
 * - values have the schema's types, or no request is built;
 * - no text can pose as an entity or an extension value: every record is built member by member;
 * - action groups are included where a policy names one.
 */
import type { CedarValueJson, Context, Entities, TypeAndId } from "@cedar-policy/cedar-wasm/nodejs";
import type { PolicyAction, PolicyQuery } from "./decision.ts";
import { hasSchemaTypes } from "./input-types.ts";
import { allInputNames, attributePrefix, type InputValue, inputTable } from "./inputs.ts";
import { actionGroups, policyActions } from "./schema.ts";

/** Arguments of Cedar's `isAuthorized`. */
export interface CedarRequest {
  readonly principal: TypeAndId;
  readonly action: TypeAndId;
  readonly resource: TypeAndId;
  readonly context: Context;
  readonly entities: Entities;
}

/** Builds the request of a query; undefined where a value does not have its input's type. Does not throw. */
export type CedarRequestBuilder = (query: PolicyQuery) => CedarRequest | undefined;

const resource: TypeAndId = { type: "Resource", id: "claimed" };
const attributes: TypeAndId = { type: "Attributes", id: "claimed" };

/**
 * Compiles a builder for the named inputs.
 *
 * @param names of inputs, as in `inputs.ts`
 * @param actions ids of actions and groups that the policies name
 */
export function cedarRequestBuilder(names: readonly string[], actions: readonly string[]): CedarRequestBuilder {
  const read = new Set(names);
  const principalMembers = membersAt("principal", read);
  const claimedMembers = membersAt("context.claimed", read);
  const nested = (["workload", "resource"] as const)
    .map((name) => [name, membersAt(`context.claimed.${name}`, read)] as const)
    .filter(([, members]) => members.length > 0);
  const tags = tagReader(names);
  const actionEntities = actionEntityBuilder(actions);
  return (query) => {
    if (!hasSchemaTypes(query)) return undefined;
    const { caller, action } = query;
    // A tenant id has no slash, so two principals never share an id.
    const principal: TypeAndId = { type: "Principal", id: `${caller.tenantId}/${caller.principalId}` };
    const claimed = recordOf(claimedMembers, query);
    for (const [name, members] of nested) claimed[name] = recordOf(members, query);
    const entities: Entities = actionEntities(action);
    if (principalMembers.length > 0) {
      entities.push({ uid: principal, attrs: recordOf(principalMembers, query), parents: [] });
    }
    if (tags !== undefined) {
      claimed.attributes = { __entity: attributes };
      entities.push({ uid: attributes, attrs: {}, parents: [], tags: tags(query) });
    }
    return { principal, action: { type: "Action", id: action }, resource, context: { claimed }, entities };
  };
}

/** Includes all inputs, for any policies. */
export const buildFullRequest: CedarRequestBuilder = cedarRequestBuilder(allInputNames, [
  ...policyActions,
  ...Object.keys(actionGroups),
]);

type Member = readonly [name: string, value: (query: PolicyQuery) => InputValue];

/** Members of the record or entity at the path that are read. Tags are none. */
function membersAt(path: string, read: ReadonlySet<string>): readonly Member[] {
  return inputTable.flatMap(([at, name, value]): readonly Member[] => {
    const end = at.lastIndexOf(".");
    return at.slice(0, end) === path && name !== "attributes" && read.has(name) ? [[at.slice(end + 1), value]] : [];
  });
}

/** Absent members stay absent: Cedar has no null. */
function recordOf(members: readonly Member[], query: PolicyQuery): Record<string, CedarValueJson> {
  const record: Record<string, CedarValueJson> = {};
  for (const [name, value] of members) {
    const found = value(query);
    if (found !== undefined) record[name] = found as CedarValueJson;
  }
  return record;
}

/** Reads the named attributes as tags; undefined where no policy reads one, so that their entity can be left out. */
function tagReader(names: readonly string[]): ((query: PolicyQuery) => Record<string, string>) | undefined {
  if (names.includes("attributes")) return ({ claimed }) => claimed.attributes;
  const keys = names
    .filter((name) => name.startsWith(attributePrefix))
    .map((name) => name.slice(attributePrefix.length));
  if (keys.length === 0) return undefined;
  return ({ claimed }) =>
    Object.fromEntries(
      keys
        .filter((key) => Object.hasOwn(claimed.attributes, key))
        .map((key) => [key, claimed.attributes[key] as string]),
    );
}

/**
 * Actions with their groups: the one that is asked about, and those that policies name, as any of them can be asked to
 * be in a group. None where no group is named: then an action is in itself alone, which Cedar knows.
 */
function actionEntityBuilder(named: readonly string[]): (asked: PolicyAction) => Entities {
  if (!named.some((name) => Object.hasOwn(actionGroups, name))) return () => [];
  return (asked) =>
    policyActions
      .filter((action) => action === asked || named.includes(action))
      .map((action) => actionEntities[action]);
}

const actionEntities = Object.fromEntries(
  policyActions.map((id) => {
    const groups = Object.keys(actionGroups).filter((group) => actionGroups[group]?.includes(id));
    return [
      id,
      { uid: { type: "Action", id }, attrs: {}, parents: groups.map((group) => ({ type: "Action", id: group })) },
    ];
  }),
) as Record<PolicyAction, Entities[number]>;
