/**
 * Types of the organisation's entities, from the operator's Cedar schema: one namespace of entity types and common
 * types, which may refer to `Principal`. Cedar parses the schema; this file has the result by full name.
 */
import type { DetailedError, SchemaJson } from "@cedar-policy/cedar-wasm/nodejs";
import { cedar } from "./cedar.ts";
import { indexOfByte, lineAt, type PolicyProblem } from "./problem.ts";

/** How requests refer to entities. */
export const referenceKinds = ["labels", "application", "key_reference", "principal"] as const;
export type ReferenceKind = (typeof referenceKinds)[number];

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

export type ValueType =
  | { readonly kind: "text" | "whole_number" | "yes_no" }
  | { readonly kind: "extension"; readonly constructor: string }
  | { readonly kind: "entity"; readonly type: string }
  | { readonly kind: "set"; readonly of: ValueType }
  | { readonly kind: "record"; readonly members: Members };

/** Members of a record or an entity, by name. */
export type Members = ReadonlyMap<string, { readonly type: ValueType; readonly required: boolean }>;

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
export type EntitySchemaReading =
  | { readonly schema: EntitySchema; readonly problems?: never }
  | { readonly schema?: never; readonly problems: readonly PolicyProblem[] };

const known = new WeakMap<DeclaredEntities, EntitySchemaReading>();

/** Parses the declared schema, and caches the result by declaration. Does not throw. */
export function readEntitySchema(declared: DeclaredEntities): EntitySchemaReading {
  const reading = known.get(declared) ?? read(declared);
  known.set(declared, reading);
  return reading;
}

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
  return {
    file,
    line: Math.min(lineAt(text, indexOfByte(text, at?.start ?? 0)), lineAt(text, text.length)),
    message: message.replace(/^(?:failed to parse schema from string: )?(?:error parsing schema: )?/, ""),
    ...(typeof hint === "string" && { hint }),
  };
}

/** Types in Cedar's resolved form. */
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
  const shape = raw.shape === undefined ? undefined : valueTypeOf(raw.shape, namespace, common);
  return {
    members: shape?.kind === "record" ? shape.members : new Map(),
    parents: new Set(raw.memberOfTypes),
    ...(raw.tags !== undefined && { tags: valueTypeOf(raw.tags, namespace, common) }),
    ...(raw.enum !== undefined && { ids: new Set(raw.enum) }),
  };
}

const plainTypes: Readonly<Record<string, ValueType>> = {
  String: { kind: "text" },
  Long: { kind: "whole_number" },
  Bool: { kind: "yes_no" },
  Boolean: { kind: "yes_no" },
  decimal: { kind: "extension", constructor: "decimal" },
  ipaddr: { kind: "extension", constructor: "ip" },
  datetime: { kind: "extension", constructor: "datetime" },
  duration: { kind: "extension", constructor: "duration" },
};

/** Cedar refuses recursive common types. */
function valueTypeOf(raw: RawType, namespace: string, common: CommonTypes): ValueType {
  const within = (type: RawType) => valueTypeOf(type, namespace, common);
  if (raw.type === "Set") return { kind: "set", of: within(raw.element as RawType) };
  if (raw.type === "Entity") return { kind: "entity", type: raw.name as string };
  if (raw.type === "Record") {
    const members = Object.entries(raw.attributes ?? {}).map(
      ([name, type]) => [name, { type: within(type), required: type.required !== false }] as const,
    );
    return { kind: "record", members: new Map(members) };
  }
  const name = (raw.type === "Extension" ? raw.name : raw.type.replace(/^__cedar::/, "")) as string;
  const plain = Object.hasOwn(plainTypes, name) ? plainTypes[name] : undefined;
  return plain ?? within(common[name.slice(`${namespace}::`.length)] as RawType);
}
