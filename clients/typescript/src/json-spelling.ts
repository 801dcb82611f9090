/**
 * Messages in the spelling of the JSON routes, unlike canonical protobuf JSON: snake_case members, lowercase
 * enumeration values without their prefix, 64-bit integers as numbers.
 */
import {
  type DescEnum,
  type DescMessage,
  fromJson,
  type JsonObject,
  type JsonValue,
  type MessageShape,
  ScalarType,
  toJson,
} from "@bufbuild/protobuf";

/** Spelling of each kind of value. */
interface Spelling {
  enumeration(desc: DescEnum, value: JsonValue): JsonValue;
  long(value: JsonValue): JsonValue;
}

/** Writes a message. Every member that is not optional is present. */
export function toRouteJson<Desc extends DescMessage>(desc: Desc, message: MessageShape<Desc>): JsonObject {
  const json = toJson(desc, message, { alwaysEmitImplicit: true, useProtoFieldName: true }) as JsonObject;
  return respell(desc, json, written);
}

/**
 * Reads a message. Ignores unknown members and enumeration values of a newer service.
 *
 * @throws Error if the value does not fit the message
 */
export function fromRouteJson<Desc extends DescMessage>(desc: Desc, json: JsonValue): MessageShape<Desc> {
  if (typeof json !== "object" || json === null || Array.isArray(json)) throw new Error("is no object");
  return fromJson(desc, respell(desc, json, read), { ignoreUnknownFields: true });
}

const written: Spelling = {
  enumeration: (desc, value) => desc.values.find(({ name }) => name === value)?.localName.toLowerCase() ?? value,
  long: Number,
};

const read: Spelling = {
  enumeration: (desc, value) =>
    desc.values.find(({ localName, number }) => number !== 0 && localName.toLowerCase() === value)?.name ?? value,
  long: (value) => value,
};

function respell(desc: DescMessage, json: JsonObject, spelling: Spelling): JsonObject {
  const result: JsonObject = { ...json };
  for (const field of desc.fields) {
    const value = result[field.name];
    if (value === undefined || value === null) continue;
    const each = (one: JsonValue): JsonValue => {
      if (field.enum !== undefined) return spelling.enumeration(field.enum, one);
      if (field.message !== undefined && isObject(one)) return respell(field.message, one, spelling);
      return field.scalar === ScalarType.INT64 ? spelling.long(one) : one;
    };
    if (field.fieldKind !== "map") result[field.name] = Array.isArray(value) ? value.map(each) : each(value);
  }
  return result;
}

function isObject(value: JsonValue): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
