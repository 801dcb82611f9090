/**
 * Fast path for ordinary requests on the JSON routes: converts parsed JSON to a message in one walk, while the general
 * path checks the whole value and then reads it. Compiled once for each message type; a test compares the two.
 */
import { type DescEnum, type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { isObject } from "../codec/check.ts";
import { itemLimit } from "../codec/size-limits.ts";

/** Returns undefined for anything that needs the general path: possible faults, and rarities such as null. */
export type Reader = (value: unknown) => Message | undefined;

type Read = (value: unknown) => unknown;

interface Member {
  readonly localName: string;
  readonly read: Read;
}

/**
 * Returns the reader of a message type; it reads nothing if the type has a field of an unsupported kind. The message
 * shares its lists and maps with the value.
 *
 * Does not look for duplicate members, nor for text that cannot be stored.
 *
 * @param desc descriptor from the registry of the JSON routes
 */
export function messageReader(desc: DescMessage): Reader {
  return (compile(desc, []) as Reader | undefined) ?? (() => undefined);
}

function compile(desc: DescMessage, outer: readonly DescMessage[]): Read | undefined {
  if (outer.includes(desc) || desc.oneofs.length > 0) return undefined;
  const members = new Map<string, Member>();
  for (const field of desc.fields) {
    const read = compileField(field, [...outer, desc]);
    if (read === undefined) return undefined;
    members.set(field.name, { localName: field.localName, read });
  }
  // An object that starts with all members is several times cheaper than one that grows.
  const blank = Object.fromEntries([["$typeName", desc.typeName], ...desc.fields.map(unsetMember)]);
  const collections = desc.fields.filter(({ fieldKind }) => fieldKind === "list" || fieldKind === "map");
  return (value) => {
    if (!isObject(value)) return undefined;
    const message: Record<string, unknown> = { ...blank };
    for (const name of Object.keys(value)) {
      const member = members.get(name);
      const content = member?.read(value[name]);
      if (member === undefined || content === undefined) return undefined;
      message[member.localName] = content;
    }
    for (const { localName, fieldKind } of collections) message[localName] ??= fieldKind === "list" ? [] : {};
    return message;
  };
}

function unsetMember(field: DescField): readonly [string, unknown] {
  if (field.presence !== FeatureSet_FieldPresence.IMPLICIT) return [field.localName, undefined];
  if (field.fieldKind === "enum") return [field.localName, 0];
  return [field.localName, field.fieldKind === "scalar" ? zeros.get(field.scalar) : undefined];
}

/** Types that `scalarReader` reads. */
const zeros: ReadonlyMap<ScalarType, unknown> = new Map<ScalarType, unknown>([
  [ScalarType.STRING, ""],
  [ScalarType.BOOL, false],
  [ScalarType.INT64, 0n],
]);

function compileField(field: DescField, outer: readonly DescMessage[]): Read | undefined {
  switch (field.fieldKind) {
    case "message":
      return compile(field.message, outer);
    case "enum":
      return enumReader(field.enum);
    case "scalar":
      return field.longAsString ? undefined : scalarReader(field.scalar);
    case "list": {
      if (field.listKind !== "scalar" || field.scalar !== ScalarType.STRING) return undefined;
      const limit = itemLimit(field);
      return (value) =>
        Array.isArray(value) && limit(value.length, "") === undefined && value.every(isText) ? value : undefined;
    }
    case "map": {
      if (field.mapKind !== "scalar" || field.scalar !== ScalarType.STRING || field.mapKey !== ScalarType.STRING)
        return undefined;
      const limit = itemLimit(field);
      return (value) => {
        if (!isObject(value)) return undefined;
        const contents = Object.values(value);
        return limit(contents.length, "") === undefined && contents.every(isText) ? value : undefined;
      };
    }
  }
}

/** On the JSON routes an unspecified value is the empty text. */
function enumReader({ values }: DescEnum): Read {
  const numbers = new Map<unknown, number>(values.map(({ jsonName, number }) => [jsonName, number]));
  return (value) => numbers.get(value);
}

function scalarReader(scalar: ScalarType): Read | undefined {
  switch (scalar) {
    case ScalarType.STRING:
      return (value) => (isText(value) ? value : undefined);
    case ScalarType.BOOL:
      return (value) => (typeof value === "boolean" ? value : undefined);
    case ScalarType.INT64:
      return (value) => (Number.isSafeInteger(value) ? BigInt(value as number) : undefined);
    default:
      return undefined;
  }
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}
