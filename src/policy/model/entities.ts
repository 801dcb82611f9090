/**
 * Types of the organisation's entities, from the operator's Cedar schema: one namespace of entity types and common
 * types, which may refer to `Principal`. Cedar parses the schema; this file has the result by full name.
 */
import type { CedarValueJson, DetailedError, SchemaJson, TypeAndId } from "@cedar-policy/cedar-wasm/nodejs";
import { isObject, type JsonObject, parseJson } from "../../base/json.ts";
import { rememberedBy } from "../../base/remembered.ts";
import { cedar } from "./cedar.ts";
import { indexOfByte, type PolicyProblem, positionAt } from "./problem.ts";

/** How requests refer to entities. */
export const referenceKinds = ["labels", "application", "key_reference", "principal"] as const;
type ReferenceKind = (typeof referenceKinds)[number];

/** Entity declarations and files of a policy directory. */
export interface DeclaredEntities {
  /** Name and text of the operator's schema. */
  readonly schemaFile: string;
  readonly schema: string;
  /** Text of each file of entities, by name. */
  readonly files: Readonly<Record<string, string>>;
  /** Full names of the types whose entities requests refer to. */
  readonly references: Readonly<Partial<Record<ReferenceKind, string>>>;
}

/** A type as Cedar resolves it; common types are replaced by what they stand for. */
interface ValueType {
  /** `String`, `Long`, `Bool`, `Set`, `Record`, `Entity`, or an extension such as `decimal`. */
  readonly type: string;
  /** Full name, of an entity's type. */
  readonly name?: string | undefined;
  /** Of a set. */
  readonly element?: ValueType | undefined;
  /** Of a record. */
  readonly members: Members;
}

/** Members of a record or an entity, by name. */
type Members = ReadonlyMap<string, { readonly type: ValueType; readonly required: boolean }>;

export interface EntityType {
  readonly members: Members;
  /** Full names of the types that its parents may have. */
  readonly parents: ReadonlySet<string>;
  readonly tags?: ValueType;
  /** All ids, if the schema lists them. Such entities are in no file. */
  readonly ids?: ReadonlySet<string>;
}

export interface EntitySchema {
  readonly namespace: string;
  /** By full name. */
  readonly types: ReadonlyMap<string, EntityType>;
}

/** The schema, or all problems of it and of the types that the manifest names. */
type EntitySchemaReading =
  | { readonly schema: EntitySchema; readonly problems?: never }
  | { readonly schema?: never; readonly problems: readonly PolicyProblem[] };

/** Parses the declared schema, and caches the result by declaration. Does not throw. */
export const readEntitySchema = rememberedBy(read);

function read({ schemaFile: file, schema: text, references }: DeclaredEntities): EntitySchemaReading {
  // The service's types that the schema may refer to are appended, so that line numbers stay.
  const answer = cedar().schemaToJsonWithResolvedTypes(`${text}\nentity Principal;`);
  if (answer.type === "failure") return { problems: answer.errors.map((error) => schemaProblem(file, text, error)) };
  const { "": ours, ...namespaces } = answer.json;
  const [namespace = "", ...others] = Object.keys(namespaces);
  const isOne = namespace !== "" && others.length === 0 && Object.keys(ours?.entityTypes ?? {}).length === 1;
  if (!isOne || Object.keys(ours?.commonTypes ?? {}).length > 0 || Object.keys(ours?.actions ?? {}).length > 0) {
    const hint = "write namespace Org { … } around everything, with a name of your own";
    return { problems: [{ file, message: "must declare one namespace, and nothing outside it", hint }] };
  }
  const definition = namespaces[namespace] as SchemaJson<string>[string];
  if (Object.keys(definition.actions).length > 0) {
    const hint = "the service knows the actions; declare entity types and common types";
    return { problems: [{ file, message: "declares actions", hint }] };
  }
  const types = new Map<string, EntityType>();
  for (const [name, type] of Object.entries(definition.entityTypes)) {
    types.set(`${namespace}::${name}`, entityTypeOf(type as RawEntityType, namespace, definition.commonTypes ?? {}));
  }
  const problems = Object.entries(references).flatMap(([kind, type]): readonly PolicyProblem[] => {
    const found = types.get(type);
    if (found !== undefined && found.ids === undefined) return [];
    const names = [...types].filter(([, { ids }]) => ids === undefined).map(([name]) => name);
    const hint = `name one of ${names.join(", ")}`;
    return [{ file, message: `entities.${kind} is ${type}, which is not an entity type of ${namespace}`, hint }];
  });
  return problems.length > 0 ? { problems } : { schema: { namespace, types } };
}

function schemaProblem(file: string, text: string, { message, help, sourceLocations }: DetailedError): PolicyProblem {
  const [at] = sourceLocations ?? [];
  const hint = help ?? at?.label;
  const { line, column } = positionAt(text, indexOfByte(text, at?.start ?? 0));
  return {
    file,
    line: Math.min(line, positionAt(text, text.length).line),
    ...(at !== undefined && { column }),
    message: message.replace(/^(?:failed to parse schema from string: )?(?:error parsing schema: )?/, ""),
    ...(typeof hint === "string" && { hint }),
  };
}

interface RawType {
  readonly type: string;
  readonly name?: string;
  readonly element?: RawType;
  readonly attributes?: Readonly<Record<string, RawType & { readonly required?: boolean }>>;
}
interface RawEntityType {
  readonly memberOfTypes?: readonly string[];
  readonly shape?: RawType;
  readonly tags?: RawType;
  readonly enum?: readonly string[];
}
type CommonTypes = Readonly<Record<string, unknown>>;

function entityTypeOf(raw: RawEntityType, namespace: string, common: CommonTypes): EntityType {
  return {
    members: raw.shape === undefined ? new Map() : valueTypeOf(raw.shape, namespace, common).members,
    parents: new Set(raw.memberOfTypes),
    ...(raw.tags !== undefined && { tags: valueTypeOf(raw.tags, namespace, common) }),
    ...(raw.enum !== undefined && { ids: new Set(raw.enum) }),
  };
}

/** Cedar refuses recursive common types. */
function valueTypeOf(raw: RawType, namespace: string, common: CommonTypes): ValueType {
  const within = (type: RawType) => valueTypeOf(type, namespace, common);
  const type = (raw.type === "Extension" ? raw.name : raw.type.replace(/^__cedar::/, "")) as string;
  const own = type.startsWith(`${namespace}::`) ? common[type.slice(`${namespace}::`.length)] : undefined;
  if (own !== undefined) return within(own as RawType);
  const members = Object.entries(raw.attributes ?? {}).map(
    ([name, member]) => [name, { type: within(member), required: member.required !== false }] as const,
  );
  return { type, name: raw.name, element: raw.element && within(raw.element), members: new Map(members) };
}

// Reads values of entities by the types of the schema, and writes them with explicit types, because Cedar evaluates
// without a schema. Cedar's own check of a hundred thousand entities takes seconds, this one a tenth; a test compares
// the two.

/** Key of an entity in maps and lists: JSON of its type and id. */
export function keyOf({ type, id }: TypeAndId): string {
  return JSON.stringify([type, id]);
}

/** The entity with the key. */
export function uidOf(key: string): TypeAndId {
  const [type, id] = parseJson(key) as [string, string];
  return { type, id };
}

/** In Cedar's syntax: `Org::Label::"secret"`. */
export function describeUid({ type, id }: TypeAndId): string {
  return `${type}::${JSON.stringify(id)}`;
}

/** The reason why a value does not have its type. */
export class WrongValue extends Error {}

/** Collected while an entity is read. */
export interface ReadingNotes {
  /** Entities that values refer to. */
  readonly references: TypeAndId[];
  /** Whether there are values that only Cedar can parse, such as dates. */
  hasExtensions: boolean;
}

/** Converts the value to explicit form. Throws a WrongValue. */
export function readValue(type: ValueType, value: unknown, what: string, notes: ReadingNotes): CedarValueJson {
  switch (type.type) {
    case "String":
      return readText(value, what);
    case "Bool":
      if (typeof value !== "boolean") throw new WrongValue(`${what} must be true or false`);
      return value;
    case "Long":
      if (!Number.isSafeInteger(value)) throw new WrongValue(`${what} must be a whole number within ±(2^53 − 1)`);
      return (value as number) + 0;
    case "Set":
      if (!Array.isArray(value)) throw new WrongValue(`${what} must be a list`);
      return value.map((item) => readValue(type.element as ValueType, item, `an item of ${what}`, notes));
    case "Record":
      if (!isObject(value)) throw new WrongValue(`${what} must be an object`);
      return readMembers(type.members, value, what, notes);
    case "Entity": {
      const uid = readUid(value, what);
      if (uid.type !== type.name) throw new WrongValue(`${what} must be of type ${type.name}, and is of ${uid.type}`);
      notes.references.push(uid);
      return { __entity: uid };
    }
    default: {
      notes.hasExtensions = true;
      const fn = type.type === "ipaddr" ? "ip" : type.type;
      return { __extn: { fn, arg: readExtension(fn, value, what) } };
    }
  }
}

/** Names with a special meaning in Cedar's records. */
export const escapes: readonly string[] = ["__entity", "__extn", "__expr"];

/** Converts members of a record or an entity. Throws a WrongValue. */
export function readMembers(
  members: Members,
  value: JsonObject,
  what: string,
  notes: ReadingNotes,
): Record<string, CedarValueJson> {
  const read: [string, CedarValueJson][] = [];
  for (const [name, given] of Object.entries(value)) {
    const member = escapes.includes(name) ? undefined : members.get(name);
    if (member === undefined) throw new WrongValue(`${what} has ${name}, which the schema does not have there`);
    read.push([name, readValue(member.type, given, `${what}.${name}`, notes)]);
  }
  for (const [name, { required }] of members) {
    if (required && !Object.hasOwn(value, name)) throw new WrongValue(`${what} has no ${name}, which is required`);
  }
  return Object.fromEntries(read);
}

/** Parses `{"type": …, "id": …}`, possibly within `__entity`. Throws a WrongValue. */
export function readUid(value: unknown, what: string): TypeAndId {
  const uid = withoutEscape(value, "__entity");
  if (!isObject(uid) || typeof uid.type !== "string" || typeof uid.id !== "string" || Object.keys(uid).length > 2) {
    throw new WrongValue(`${what} must be an entity: {"type": "…", "id": "…"}`);
  }
  return { type: readText(uid.type, what), id: readText(uid.id, what) };
}

/** The value of the only member, if it has this name. */
function withoutEscape(value: unknown, name: string): unknown {
  return isObject(value) && Object.keys(value).join() === name ? value[name] : value;
}

export function readText(value: unknown, what: string): string {
  if (typeof value !== "string") throw new WrongValue(`${what} must be text`);
  if (!value.isWellFormed()) throw new WrongValue(`${what} has half of a surrogate pair`);
  return value;
}

/** Parses text, or `{"fn": …, "arg": "…"}`, possibly within `__extn`. Cedar checks the text later. */
function readExtension(fn: string, value: unknown, what: string): string {
  if (!isObject(value)) return readText(value, what);
  const call = withoutEscape(value, "__extn");
  if (!isObject(call) || call.fn !== fn || Object.keys(call).length > 2) {
    throw new WrongValue(`${what} must be a text for ${fn}`);
  }
  return readText(call.arg, what);
}

// Paths at which policies read entities of the organisation. Each reference is made of inputs, and present if a file
// has the entity; that of labels is always present, as a set, which is in every label and all that those are in.

export interface EntityReference {
  /** Path under which policies read it. */
  readonly path: string;
  readonly kind: ReferenceKind;
  /** Full type name of the referenced entities. */
  readonly type: string;
  /** Names of the inputs that it is made of. */
  readonly reads: readonly string[];
}

const rows: readonly Omit<EntityReference, "type">[] = [
  { path: "context.claimed.label_set", kind: "labels", reads: ["labels"] },
  { path: "context.claimed.workload.application_entity", kind: "application", reads: ["workload.application"] },
  { path: "context.claimed.key_entity", kind: "key_reference", reads: ["key_reference"] },
  { path: "context.registered.label_set", kind: "labels", reads: ["registered.labels"] },
  { path: "context.registered.label_set_ever", kind: "labels", reads: ["registered.labels_ever"] },
  { path: "context.registered.application_entity", kind: "application", reads: ["registered.application"] },
  { path: "context.registered.key_entity", kind: "key_reference", reads: ["registered.key_reference"] },
  { path: "principal.entity", kind: "principal", reads: ["caller.tenant_id", "caller.principal_id"] },
];

/** Member of the principal for its reference; no attribute may have this name. */
export const principalReference = "entity";

/** The references of a directory. */
export function entityReferences(declared: DeclaredEntities | undefined): readonly EntityReference[] {
  return rows.flatMap((row) => {
    const type = declared?.references[row.kind];
    return type === undefined ? [] : [{ ...row, type }];
  });
}

/** Summary of one attribute over a set of labels. */
export interface LabelSummary {
  /** Name of the member of the set. */
  readonly name: string;
  /** Name of the attribute. */
  readonly of: string;
  readonly kind: "max" | "min" | "all";
}

/** The largest and the smallest of each whole number, and all of each text. */
export function labelSummaries(schema: EntitySchema, labelType: string): readonly LabelSummary[] {
  const members = [...(schema.types.get(labelType)?.members ?? [])].sort(([a], [b]) => (a < b ? -1 : 1));
  return members.flatMap(([of, { type }]) => kindsOf(type).map((kind) => ({ name: `${kind}_${of}`, of, kind })));
}

function kindsOf({ type, element }: ValueType): readonly LabelSummary["kind"][] {
  if (type === "Long") return ["max", "min"];
  return type === "String" || element?.type === "String" ? ["all"] : [];
}

/** Members that references add to the record at the path, in Cedar's syntax. */
export function referenceMembers(declared: DeclaredEntities | undefined, record: string): readonly string[] {
  // An invalid schema adds nothing; its problems are reported elsewhere.
  if (declared === undefined || readEntitySchema(declared).schema === undefined) return [];
  const within = entityReferences(declared).filter(({ path }) => path.slice(0, path.lastIndexOf(".")) === record);
  return within.map(({ path, kind, type }) => {
    const name = JSON.stringify(path.slice(record.length + 1));
    return kind === "labels" ? `${name}: LabelSet` : `${name}?: ${type}`;
  });
}

/** Types of the organisation's entities, and of their sets. */
export function referenceTypes(declared: DeclaredEntities | undefined): string {
  const { schema } = declared === undefined ? {} : readEntitySchema(declared);
  if (declared === undefined || schema === undefined) return "";
  const { labels } = declared.references;
  return `${labels === undefined ? "" : labelSetType(schema, labels)}\n${declared.schema.trimEnd()}\n`;
}

function labelSetType(schema: EntitySchema, label: string): string {
  const members = labelSummaries(schema, label).map(
    ({ name, kind }) => `  ${JSON.stringify(name)}?: ${kind === "all" ? "Set<String>" : "Long"},\n`,
  );
  return `
// Labels together. They are in all that any of them is in.
entity LabelSet in [${label}] = {
  // Those that the organisation knows, and whether there are others.
  "known": Set<${label}>,
  "unknown": Bool,
  // What all of them are, or are in. Empty if one is unknown.
  "common": Set<${label}>,
  // Of their attributes: the largest and the smallest number, and all texts. Absent if one of them is unknown; numbers
  // also if none of them has one.
${members.join("")}};
`;
}
