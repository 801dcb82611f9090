/**
 * Reads values of entities by the types of the schema, and writes them with explicit types, because Cedar evaluates
 * without a schema. Cedar's own check of a hundred thousand entities takes seconds, this one a tenth; a test compares
 * the two.
 */
import type { CedarValueJson } from "@cedar-policy/cedar-wasm/nodejs";
import type { Members, ValueType } from "./entity-types.ts";

/** An entity: full name of its type, and id. */
export type EntityUid = readonly [type: string, id: string];

/** Key of an entity in maps and lists. Different entities have different keys. */
export function keyOf(type: string, id: string): string {
  return JSON.stringify([type, id]);
}

/** In Cedar's syntax: `Org::Label::"secret"`. */
export function describeUid([type, id]: EntityUid): string {
  return `${type}::${JSON.stringify(id)}`;
}

export type JsonObject = Readonly<Record<string, unknown>>;

/** The reason why a value does not have its type. */
export class WrongValue extends Error {}

/** Collected while an entity is read. */
export interface ReadingNotes {
  members: number;
  /** Entities that values refer to. */
  readonly references: EntityUid[];
  /** Whether there are values that only Cedar can parse, such as dates. */
  hasExtensions: boolean;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Converts the value to explicit form. Throws a WrongValue. */
export function readValue(type: ValueType, value: unknown, what: string, notes: ReadingNotes): CedarValueJson {
  switch (type.kind) {
    case "text":
      return readText(value, what);
    case "yes_no":
      if (typeof value !== "boolean") throw new WrongValue(`${what} must be true or false`);
      return value;
    case "whole_number":
      if (!Number.isSafeInteger(value)) throw new WrongValue(`${what} must be a whole number within ±(2^53 − 1)`);
      return (value as number) + 0;
    case "set":
      if (!Array.isArray(value)) throw new WrongValue(`${what} must be a list`);
      return value.map((item) => readValue(type.of, item, `an item of ${what}`, notes));
    case "record":
      if (!isObject(value)) throw new WrongValue(`${what} must be an object`);
      return readMembers(type.members, value, what, notes);
    case "entity": {
      const [of, id] = readUid(value, what, notes);
      if (of !== type.type) throw new WrongValue(`${what} must be of type ${type.type}, and is of ${of}`);
      notes.references.push([of, id]);
      return { __entity: { type: of, id } };
    }
    case "extension":
      notes.hasExtensions = true;
      return { __extn: { fn: type.constructor, arg: readExtension(type.constructor, value, what, notes) } };
  }
}

/** Names with a special meaning in Cedar's records. */
const escapes: readonly string[] = ["__entity", "__extn", "__expr"];

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
    notes.members++;
    read.push([name, readValue(member.type, given, `${what}.${name}`, notes)]);
  }
  for (const [name, { required }] of members) {
    if (required && !Object.hasOwn(value, name)) throw new WrongValue(`${what} has no ${name}, which is required`);
  }
  return Object.fromEntries(read);
}

/** Parses `{"type": …, "id": …}`, possibly within `__entity`. Throws a WrongValue. */
export function readUid(value: unknown, what: string, notes: ReadingNotes): EntityUid {
  const isEscaped = isObject(value) && Object.hasOwn(value, "__entity");
  const uid = isEscaped ? value.__entity : value;
  if (!isObject(uid) || typeof uid.type !== "string" || typeof uid.id !== "string" || Object.keys(uid).length > 2) {
    throw new WrongValue(`${what} must be an entity: {"type": "…", "id": "…"}`);
  }
  notes.members += isEscaped ? 3 : 2;
  return [readText(uid.type, what), readText(uid.id, what)];
}

export function readText(value: unknown, what: string): string {
  if (typeof value !== "string") throw new WrongValue(`${what} must be text`);
  if (!value.isWellFormed()) throw new WrongValue(`${what} has half of a surrogate pair`);
  return value;
}

/** Parses text, or `{"fn": …, "arg": "…"}`, possibly within `__extn`. Cedar checks the text later. */
function readExtension(fn: string, value: unknown, what: string, notes: ReadingNotes): string {
  if (!isObject(value)) return readText(value, what);
  const isEscaped = Object.hasOwn(value, "__extn");
  const call = isEscaped ? value.__extn : value;
  if (!isObject(call) || call.fn !== fn || Object.keys(call).length > 2) {
    throw new WrongValue(`${what} must be a text for ${fn}`);
  }
  notes.members += isEscaped ? 3 : 2;
  return readText(call.arg, what);
}
