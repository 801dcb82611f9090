/** JSON Schemas of the messages, made from the descriptors that the JSON routes use. */
import { type DescEnum, type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import type { JsonObject, JsonValue } from "../../base/json.ts";
import { isFree, isOpen } from "../../transport/codec/contract.ts";
import { type Comments, describe, describeWithoutName } from "./comments.ts";
import { type Keywords, translateRules } from "./rules.ts";
import { messageKeywords, nullableMembers, omittedMembers, Vocabulary } from "./vocabulary.ts";

/** Direction of a message. A message in both directions would need two schemas; there is none. */
export type Direction = "request" | "response";

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
