/** JSON Schemas of the messages, made from the descriptors that the JSON routes use. */
import {
  type DescEnum,
  type DescField,
  type DescMessage,
  getOption,
  type MessageShape,
  ScalarType,
} from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import {
  type FieldRules,
  FieldRulesSchema,
  field as fieldRules,
  type MapRules,
  MapRulesSchema,
  type RepeatedRules,
  RepeatedRulesSchema,
} from "../../gen/buf/validate/validate_pb.ts";
import type { JsonObject, JsonValue } from "../../src/base/json.ts";
import { isFree, isOpen } from "../../src/transport/codec/contract.ts";
import { messageKeywords, nullableMembers, omittedMembers, Vocabulary } from "./vocabulary.ts";

/** Direction of a message. A message in both directions would need two schemas; there is none. */
type Direction = "request" | "response";

type Schema = Record<string, JsonValue | undefined>;

/** Text that a store or RFC 8785 cannot hold is refused: U+0000, and lone surrogates, which no pattern can match. */
const cleanText = "^[^\\x00]*$";

const maxSafeInteger = Number.MAX_SAFE_INTEGER;
const maxInt32 = 2 ** 31 - 1;

/** Collects the schemas of everything that the added messages refer to. */
export class Schemas {
  readonly #comments: Comments;
  readonly #vocabulary = new Vocabulary();
  readonly #schemas = new Map<string, JsonObject>();
  readonly #directions = new Map<string, Direction>();

  constructor(comments: Comments) {
    this.#comments = comments;
  }

  /**
   * Adds a message and returns the reference to its schema.
   *
   * @param desc descriptor from the registry of the JSON routes
   */
  add(desc: DescMessage, direction: Direction): JsonObject {
    const known = this.#directions.get(desc.name);
    if (known !== undefined && known !== direction) throw new Error(`${desc} travels both ways`);
    if (known === undefined) {
      this.#directions.set(desc.name, direction);
      this.#schemas.set(desc.name, this.#message(desc, direction));
    }
    return reference(desc.name);
  }

  /**
   * The schemas by name. Throws if the vocabulary names a member that no message has.
   *
   * @param isPart whether another document has further messages
   */
  finish({ isPart = false } = {}): JsonObject {
    if (!isPart) this.#vocabulary.close();
    return Object.fromEntries([...this.#schemas].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  #message(desc: DescMessage, direction: Direction): JsonObject {
    const required: string[] = [];
    const properties: Record<string, JsonObject> = {};
    for (const field of desc.fields) {
      const { schema, isRequired } = direction === "request" ? this.#requestMember(field) : this.#answerMember(field);
      properties[field.jsonName] = this.#annotate(field, schema);
      if (isRequired) required.push(field.jsonName);
    }
    return {
      type: "object",
      description: describeWithoutName(this.#comments, desc.typeName),
      // Also for answers, because clients of some generators otherwise refuse members that later versions add.
      additionalProperties: direction === "response" || isOpen(desc),
      ...(required.length > 0 && { required }),
      properties,
      ...messageKeywords[desc.name],
    };
  }

  #requestMember(field: DescField): { schema: Schema; isRequired: boolean } {
    const rules = translateRules(field);
    const schema = this.#value(field, "request", rules);
    const isRequired = rules.required || Number(schema.minLength ?? schema.minItems ?? 0) > 0;
    return { schema: isRequired ? schema : this.#orAbsent(field, schema), isRequired };
  }

  #answerMember(field: DescField): { schema: Schema; isRequired: boolean } {
    const { own, items, keys } = translateRules(field);
    return {
      schema: this.#value(field, "response", { own, items, keys }),
      isRequired: !field.proto.proto3Optional && !omittedMembers.has(memberOf(field)),
    };
  }

  /** Schema of a present value. */
  #value(field: DescField, direction: Direction, rules: { own: Keywords; items: Keywords; keys: Keywords }): Schema {
    const more = this.#vocabulary.keywordsOf(memberOf(field));
    switch (field.fieldKind) {
      case "message":
        return isFree(field.message) ? { type: "object" } : { ...this.add(field.message, direction) };
      case "enum":
        return this.#enum(field.enum);
      case "scalar":
        return { ...scalar(field.scalar, direction, rules.own), ...more };
      case "list":
        return { type: "array", ...rules.own, ...more, items: this.#item(field, direction, rules.items) };
      case "map":
        return {
          type: "object",
          ...rules.own,
          propertyNames: scalar(ScalarType.STRING, direction, rules.keys),
          additionalProperties: scalar(ScalarType.STRING, direction, rules.items),
        };
    }
  }

  #item(field: DescField & { fieldKind: "list" }, direction: Direction, rules: Keywords): JsonObject {
    switch (field.listKind) {
      case "message":
        return this.add(field.message, direction);
      case "enum":
        return this.#enum(field.enum);
      case "scalar":
        return scalar(field.scalar, direction, rules);
    }
  }

  #enum(desc: DescEnum): JsonObject {
    if (!this.#schemas.has(desc.name)) {
      const values = desc.values.filter(({ number }) => number !== 0);
      const meanings = values.map((value) => {
        const fullName = `${desc.file.proto.package}.${value.name}`;
        return `- \`${value.jsonName}\`: ${describe(this.#comments, fullName).description}`;
      });
      this.#schemas.set(desc.name, {
        type: "string",
        description: `${describe(this.#comments, desc.typeName).description}\n\n${meanings.join("\n")}`,
        enum: values.map(({ jsonName }) => jsonName as string),
      });
    }
    return reference(desc.name);
  }

  /**
   * An optional member of a request may be absent, `null` or, if it is text, `""`. One type, one pattern, one
   * enumeration: code that generators make for a union does not compile in every language.
   */
  #orAbsent(field: DescField, schema: Schema): Schema {
    if (field.fieldKind === "enum") return this.#optionalEnum(field.enum);
    if (field.fieldKind === "message" && !isFree(field.message))
      return nullableMembers.has(memberOf(field)) ? { anyOf: [schema as JsonObject, { type: "null" }] } : schema;
    const { type, pattern, format } = schema;
    if (typeof type !== "string") throw new Error(`${field} has no type of its own`);
    // A format only annotates (JSON Schema 2020-12 §7.2.1), so it does not exclude the empty text.
    if (typeof pattern !== "string" || format !== undefined) return { ...schema, type: [type, "null"] };
    return { ...schema, type: [type, "null"], pattern: orEmpty(pattern) };
  }

  #optionalEnum(desc: DescEnum): JsonObject {
    const { name } = desc;
    const optional = `Optional${name}`;
    this.#enum(desc);
    const { description, enum: words } = this.#schemas.get(name) as { description: string; enum: string[] };
    this.#schemas.set(optional, { type: ["string", "null"], description, enum: [...words, "", null] });
    return reference(optional);
  }

  #annotate(field: DescField, schema: Schema): JsonObject {
    const isNumber = field.fieldKind === "scalar" && field.scalar !== ScalarType.STRING;
    const described = describe(this.#comments, `${field.parent.typeName}.${field.name}`, isNumber ? "number" : "text");
    const examples = field.fieldKind === "list" ? described.examples.map((item) => [item]) : described.examples;
    return {
      ...schema,
      description: described.description,
      ...(described.additive && { "x-additive": true }),
      ...(examples.length > 0 && { examples }),
    };
  }
}

function memberOf({ parent, name }: DescField): string {
  return `${parent.name}.${name}`;
}

function reference(name: string): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}

/** The pattern, or the empty text. */
function orEmpty(pattern: string): string {
  return new RegExp(pattern, "u").test("") ? pattern : `^(${pattern.replace(/^\^|\$$/g, "")})?$`;
}

function scalar(type: ScalarType, direction: Direction, rules: Keywords): Schema {
  switch (type) {
    case ScalarType.STRING:
      return direction === "request" ? { type: "string", pattern: cleanText, ...rules } : { type: "string", ...rules };
    case ScalarType.BYTES:
      return { type: "string", contentEncoding: "base64" };
    case ScalarType.BOOL:
      return { type: "boolean" };
    case ScalarType.INT32:
      return { type: "integer", format: "int32", minimum: -maxInt32 - 1, maximum: maxInt32, ...rules };
    case ScalarType.INT64:
      return { type: "integer", format: "int64", minimum: -maxSafeInteger, maximum: maxSafeInteger, ...rules };
    default:
      throw new Error(`scalar ${ScalarType[type]} is not supported on the JSON routes`);
  }
}

// `buf.validate` rules as JSON Schema keywords. A rule without a counterpart here is an error, and is never omitted.

/** Keywords of a JSON Schema. */
type Keywords = Readonly<Record<string, string | number>>;

/** Rules of one field, translated. */
interface TranslatedRules {
  /** Whether the JSON routes refuse a request without the member. */
  readonly required: boolean;
  /** Keywords of the value itself; for a list or map, of the list or map. */
  readonly own: Keywords;
  /** Keywords of each item of a list, or each value of a map. */
  readonly items: Keywords;
  /** Keywords of each key of a map. */
  readonly keys: Keywords;
}

/** Keyword for each rule of a scalar, by its name in `validate.proto`. */
const scalarKeywords: Readonly<Record<string, string>> = {
  "string.min_len": "minLength",
  "string.max_len": "maxLength",
  "string.pattern": "pattern",
  "int64.gte": "minimum",
  "int64.lte": "maximum",
};

const none: Keywords = {};

/** Translates the rules of a field. Throws if a rule has no counterpart. */
export function translateRules(field: DescField): TranslatedRules {
  const rules = getOption(field, fieldRules);
  const own = rules.type.case === "repeated" || rules.type.case === "map" ? none : scalarRules(field, rules);
  const translated = { own, items: none, keys: none, ...containerRules(field, rules) };
  return { ...translated, required: rules.required || Number(own.minLength ?? 0) > 0 };
}

function containerRules(field: DescField, rules: FieldRules): Partial<Omit<TranslatedRules, "required">> {
  switch (rules.type.case) {
    case "repeated":
      return repeated(field, rules.type.value);
    case "map":
      return map(field, rules.type.value);
    default:
      return {};
  }
}

function repeated(field: DescField, rules: RepeatedRules) {
  allow(field, rules, RepeatedRulesSchema, ["max_items", "items"]);
  return { own: { maxItems: Number(rules.maxItems) }, items: rules.items ? scalarRules(field, rules.items) : none };
}

function map(field: DescField, rules: MapRules) {
  allow(field, rules, MapRulesSchema, ["max_pairs", "keys", "values"]);
  return {
    own: { maxProperties: Number(rules.maxPairs) },
    keys: rules.keys ? scalarRules(field, rules.keys) : none,
    items: rules.values ? scalarRules(field, rules.values) : none,
  };
}

function scalarRules(field: DescField, rules: FieldRules): Keywords {
  const kind = rules.type.case;
  allow(field, rules, FieldRulesSchema, ["required", ...(kind === undefined ? [] : [kind])]);
  if (kind === undefined) return none;
  const keywords: Record<string, string | number> = {};
  const reader = reflect(FieldRulesSchema, rules);
  const kindField = FieldRulesSchema.fields.find(({ name }) => name === kind);
  if (kindField?.fieldKind !== "message") throw new Error(`${field}: rules of kind ${kind} are not supported`);
  const values = reader.get(kindField);
  for (const rule of kindField.message.fields) {
    if (!values.isSet(rule)) continue;
    // The document's enumerations list the declared values, which is what this rule requires.
    if (kind === "enum" && rule.name === "defined_only") continue;
    const keyword = scalarKeywords[`${kind}.${rule.name}`];
    if (keyword === undefined) throw new Error(`${field}: rule ${kind}.${rule.name} has no keyword`);
    const value: unknown = values.get(rule);
    keywords[keyword] = typeof value === "string" ? value : Number(value);
  }
  return keywords;
}

/** Throws if a rule other than the named ones is set. */
function allow<Desc extends DescMessage>(
  field: DescField,
  rules: MessageShape<Desc>,
  schema: Desc,
  names: readonly string[],
): void {
  const reader = reflect(schema, rules);
  const stray = schema.fields.find((rule) => reader.isSet(rule) && !names.includes(rule.name));
  if (stray !== undefined) throw new Error(`${field}: rule ${stray.name} has no keyword`);
}

// Comments of the protobuf definitions, which are the API documentation, in the form for the OpenAPI document.

/** Comment by full protobuf name, such as `platform.sdk.v1.Caller.tenant_id`. Generated code does not carry them. */
export type Comments = Readonly<Record<string, string>>;

/** A parsed comment. */
interface Description {
  readonly description: string;
  /** Values after `Example:`, in the type of the member. */
  readonly examples: readonly JsonValue[];
  /** Whether the member was added after the first version of the contract. */
  readonly additive: boolean;
}

/**
 * Parses the comment of a member, message, enumeration or value. Throws if there is none: everything must be
 * documented.
 */
export function describe(comments: Comments, fullName: string, type: "text" | "number" = "text"): Description {
  const comment = comments[fullName];
  if (comment === undefined) throw new Error(`${fullName} has no comment`);
  const examples: JsonValue[] = [];
  const description = comment
    // An example of a map entry, `key` = `value`, stays in the sentence, because it is not a value of the member.
    .replace(/\s*Example: `([^`]+)`\.(?=\s|$)/g, (_all, text: string) => {
      examples.push(type === "number" ? Number(text) : text);
      return "";
    })
    .trim();
  return { description, examples, additive: description.startsWith("Additive.") };
}

/**
 * The comment of an RPC or message without its name: `WhoAmI returns the caller.` becomes `Returns the caller.`,
 * because the JSON routes do not show the name.
 */
export function describeWithoutName(comments: Comments, fullName: string): string {
  const { description } = describe(comments, fullName);
  const name = fullName.slice(fullName.lastIndexOf(".") + 1);
  if (!description.startsWith(`${name} `)) return description;
  const rest = description.slice(name.length + 1);
  return rest.charAt(0).toUpperCase() + rest.slice(1);
}
