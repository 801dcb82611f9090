/** A directory with entities of every kind, for tests. */
import { declaringFiles, type Files } from "./harness.ts";

export const entitySchema = `namespace Org {
  type Contact = { "mail": String, "desk"?: Group };
  entity Label in [Label, Group] = { "rank"?: Long, "roles"?: Set<String>, "area"?: String };
  entity Group in [Group] = { "lead"?: Person } tags Set<String>;
  entity Person in [Group] = { "boss"?: Person };
  entity Tier enum ["gold", "tin"];
  entity Application in [Group] = {
    "tier": Tier, "owner": Group, "contact": Contact, "principals": Set<Principal>, "since"?: datetime,
  };
  entity Key = { "application"?: Application, "hsm": Bool };
}
`;

export type Json = Readonly<Record<string, unknown>>;
export const uid = (type: string, id: string) => ({ type: `Org::${type}`, id });

export function entity(
  type: string,
  id: string,
  attrs: Json = {},
  parents: readonly Json[] = [],
  more: Json = {},
): Json {
  return { uid: uid(type, id), attrs, parents, ...more };
}

export const labels: readonly Json[] = [
  entity("Label", "classified", {}, [uid("Group", "security")]),
  entity("Label", "secret", { rank: 3, roles: ["officer", "doctor"] }, [uid("Label", "classified")]),
  entity("Label", "confidential", { rank: 2, roles: ["doctor"] }, [uid("Label", "classified")]),
  entity("Label", "public", { rank: 0, area: "press" }),
  entity("Label", "eu", { area: "europe" }),
];
export const others: readonly Json[] = [
  entity("Group", "security", { lead: uid("Person", "tenant-a/a") }, [], { tags: { rooms: ["1", "2"] } }),
  entity("Group", "finance", {}, [uid("Group", "security")]),
  entity("Person", "tenant-a/a", {}, [uid("Group", "finance")]),
  entity("Person", "tenant-a/b", { boss: { __entity: uid("Person", "tenant-a/a") } }),
  entity("Application", "payroll", {
    tier: uid("Tier", "gold"),
    owner: uid("Group", "finance"),
    contact: { mail: "a@b", desk: uid("Group", "security") },
    principals: [{ type: "Principal", id: "tenant-a/a" }],
    since: "2026-01-31",
  }),
  entity("Application", "viewer", {
    tier: uid("Tier", "tin"),
    owner: uid("Group", "security"),
    contact: { mail: "c@d" },
    principals: [],
  }),
  entity("Key", "kms://payroll", { hsm: true, application: uid("Application", "payroll") }),
  entity("Key", "kms://other", { hsm: false }),
];

export const entitiesMember = `entities:
  schema: org.cedarschema
  files: [labels.json, others.json]
  labels: Org::Label
  application: Org::Application
  key_reference: Org::Key
  principal: Org::Person
`;

/** Allows everything, and declares attributes and entities. */
export const knowingFiles: Files = {
  ...declaringFiles,
  "manifest.yaml": `${declaringFiles["manifest.yaml"]}${entitiesMember}`,
  "org.cedarschema": entitySchema,
  "labels.json": JSON.stringify(labels, undefined, 2),
  "others.json": JSON.stringify(others),
};

/** Conditions that read entities in every way that there is. */
export const entityConditions: readonly string[] = [
  'context.claimed.label_set in Org::Label::"classified"',
  'context.claimed.label_set in [Org::Label::"confidential", Org::Label::"eu"]',
  "context.claimed.label_set.unknown || context.claimed.label_set.known.isEmpty()",
  'context.claimed.label_set.common.contains(Org::Label::"classified")',
  "context.claimed.label_set has max_rank && principal.clearance >= context.claimed.label_set.max_rank",
  "context.claimed has label_set.min_rank && context.claimed.label_set.min_rank == 0",
  "context.claimed.label_set has all_roles && principal has roles && principal.roles.containsAll(context.claimed.label_set.all_roles)",
  '(if context.claimed.content_digest_present then context.claimed else context.claimed).label_set in Org::Label::"secret"',
  'LabelSet::"claimed.label_set" in Org::Label::"public"',
  'context.claimed.workload has application_entity && context.claimed.workload.application_entity.tier == Org::Tier::"gold"',
  'context.claimed.workload has application_entity && context.claimed.workload.application_entity.owner in Org::Group::"security"',
  'context.claimed.label_set in Org::Group::"security"',
  "context has claimed.workload.application_entity.contact.desk.lead.boss || context.claimed.content_digest_present",
  "context.claimed.workload has application_entity && context.claimed.workload.application_entity.contact has desk && context.claimed.workload.application_entity.contact.desk.hasTag(context.claimed.resource.kind)",
  "context.claimed.workload has application_entity && context.claimed.workload.application_entity.principals.contains(principal)",
  'context.claimed.workload has application_entity && { it: context.claimed.workload.application_entity }.it.owner == Org::Group::"finance"',
  "context.claimed has key_entity && context.claimed.key_entity.hsm",
  'context.claimed has key_entity && context.claimed.key_entity has application && context.claimed.key_entity.application.contact has desk && context.claimed.key_entity.application.contact.desk.hasTag("rooms")',
  "context.claimed has key_entity && context.claimed.workload has application_entity && context.claimed.key_entity has application && context.claimed.key_entity.application == context.claimed.workload.application_entity",
  'principal has entity && principal.entity in Org::Group::"finance"',
  "principal has entity && principal.entity has boss && !(principal.entity.boss has boss)",
  'principal has entity && principal.entity == Org::Person::"tenant-a/b"',
  'context has registered && context.registered.label_set in Org::Label::"classified"',
  "context has registered.label_set_ever.max_rank && principal.clearance >= context.registered.label_set_ever.max_rank",
  'context has registered.application_entity && context.registered.application_entity.owner in Org::Group::"security"',
  'Org::Label::"secret" in Org::Label::"classified" && context.claimed.content_digest_present',
  'Org::Group::"security" has lead && Org::Group::"security".lead == Org::Person::"tenant-a/a" && context.claimed.content_digest_present',
  'Org::Group::"security".hasTag("rooms") && Org::Group::"security".getTag("rooms").contains(context.claimed.resource.kind)',
  'Principal::"tenant-a/a" has entity && context.claimed.content_digest_present',
  '[Org::Label::"eu", Org::Label::"public"].containsAll(context.claimed.label_set.known)',
];
