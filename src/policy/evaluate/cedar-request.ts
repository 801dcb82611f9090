/**
 * Builds Cedar's authorization request with only the inputs that the policies read: its size is most of the cost of a
 * decision. `reads.ts` never names too few inputs, so no decision depends on one left out.
 *
 * The request goes to Cedar without the schema, against which Cedar would check every value each time. What the schema
 * would ensure is ensured here and in `model/inputs.ts`:
 *
 * - values have the schema's types, or no request is built;
 * - no text can pose as an entity or an extension value: every record is built member by member;
 * - actions are in their groups.
 */
import type { CedarValueJson, Context, Entities, TypeAndId } from "@cedar-policy/cedar-wasm/nodejs";
import type { PolicyQuery } from "../model/decision.ts";
import { hasSchemaTypes, type Input, type InputCatalogue, readsOnBehalfOf, readsRegistered } from "../model/inputs.ts";
import { actionGroups, policyActions } from "../model/schema.ts";
import { type EntitySource, type EntityUse, entityMembers } from "./entity-request.ts";

export interface CedarRequest {
  readonly principal: TypeAndId;
  readonly action: TypeAndId;
  readonly resource: TypeAndId;
  readonly context: Context;
  readonly entities: Entities;
}

const resource: TypeAndId = { type: "Resource", id: "claimed" };

/**
 * Compiles a builder for the named inputs. It returns undefined if a value does not have its input's type, and does not
 * throw.
 *
 * @param names of inputs, as in the catalogue
 * @param known absent if the policies use no entities
 */
export function cedarRequestBuilder(
  names: readonly string[],
  catalogue: InputCatalogue,
  known: KnownEntities = { use: noEntities },
): (query: PolicyQuery) => CedarRequest | undefined {
  const ofEntities = entityMembers(known.source, known.use, catalogue);
  const plain = catalogue.inputs.filter(
    ({ name, kind }) => kind !== "tags" && kind !== "record" && names.includes(name),
  );
  const tags = catalogue.tags.flatMap((input) => tagEntity(input, names, catalogue) ?? []);
  const members = [
    ...plain.map(({ path, name }): Member => ({ path, value: catalogue.reader(name) })),
    ...tags,
    ...ofEntities.members,
  ];
  const attributesOf = members.some(isMemberOf("principal")) ? recordBuilder(members, "principal") : undefined;
  const claimedOf = recordBuilder(members, "context.claimed");
  const registeredOf = readsRegistered(names) ? recordBuilder(members, "context.registered") : undefined;
  const onBehalfOf = readsOnBehalfOf(names) ? recordBuilder(members, "context.on_behalf_of") : undefined;
  return (query) => {
    if (!hasSchemaTypes(query, catalogue)) return undefined;
    const known = ofEntities.entities(query);
    if (known === undefined) return undefined;
    const { caller, action } = query;
    // A tenant id has no slash, so two principals never share an id.
    const principal: TypeAndId = { type: "Principal", id: `${caller.tenantId}/${caller.principalId}` };
    const entities: Entities = [...actionEntities];
    if (attributesOf !== undefined) entities.push({ uid: principal, attrs: attributesOf(query), parents: [] });
    for (const { entity } of tags) entities.push(...entity(query));
    entities.push(...known);
    const context: Context = { claimed: claimedOf(query) };
    if (registeredOf !== undefined && query.registered !== undefined) context.registered = registeredOf(query);
    if (onBehalfOf !== undefined && query.onBehalfOf !== undefined) context.on_behalf_of = onBehalfOf(query);
    return { principal, action: { type: "Action", id: action }, resource, context, entities };
  };
}

/** Entities of the organisation, and what policies use of them. */
interface KnownEntities {
  readonly source?: EntitySource | undefined;
  readonly use: EntityUse;
}

const noEntities: EntityUse = { references: [], roots: [], steps: 0 };

interface Member {
  /** Path under which policies read it. */
  readonly path: string;
  readonly value: (query: PolicyQuery) => unknown;
}

function isMemberOf(record: string): (member: Member) => boolean {
  return ({ path }) => path.startsWith(`${record}.`);
}

/** Builds the record or entity at the path, with nested records. Absent members stay absent: Cedar has no null. */
function recordBuilder(
  members: readonly Member[],
  path: string,
): (query: PolicyQuery) => Record<string, CedarValueJson> {
  const within = members.filter(isMemberOf(path));
  const names = new Set(within.map((member) => member.path.slice(path.length + 1).split(".")[0] as string));
  const readers = [...names].map((name) => {
    const at = `${path}.${name}`;
    return [name, within.find((member) => member.path === at)?.value ?? recordBuilder(within, at)] as const;
  });
  return (query) => {
    const record: Record<string, CedarValueJson> = {};
    for (const [name, read] of readers) {
      const found = read(query);
      if (found !== undefined) record[name] = found as CedarValueJson;
    }
    return record;
  };
}

/**
 * The entity with the tags: `Attributes::"claimed"` for those at `context.claimed.attributes`; none if a query has no
 * such tags. Undefined if no policy reads one, so that it can be left out.
 */
function tagEntity(
  { path, name, value }: Input,
  names: readonly string[],
  catalogue: InputCatalogue,
): (Member & { readonly entity: (query: PolicyQuery) => Entities }) | undefined {
  const single = names.flatMap((read) => catalogue.tagOf(read) ?? []).filter(({ of }) => of.name === name);
  const isWhole = names.includes(name);
  if (!isWhole && single.length === 0) return undefined;
  const uid: TypeAndId = { type: "Attributes", id: path.split(".").at(-2) as string };
  const some = (tags: Readonly<Record<string, string>>): Record<string, string> =>
    Object.fromEntries(
      single.filter(({ key }) => Object.hasOwn(tags, key)).map(({ key }) => [key, tags[key] as string]),
    );
  return {
    path,
    value: () => ({ __entity: uid }),
    entity: (query) => {
      const tags = value(query) as Record<string, string> | undefined;
      return tags === undefined ? [] : [{ uid, attrs: {}, parents: [], tags: isWhole ? tags : some(tags) }];
    },
  };
}

/** Actions with their groups: a policy may test of any action whether it is in a group. */
const actionEntities: Entities = policyActions.map((id) => {
  const groups = Object.keys(actionGroups).filter((group) => actionGroups[group]?.includes(id));
  return { uid: { type: "Action", id }, attrs: {}, parents: groups.map((group) => ({ type: "Action", id: group })) };
});
