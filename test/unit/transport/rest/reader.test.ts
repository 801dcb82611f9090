/** The short way from a JSON request to its message, held against the general one. */
import {
  type DescField,
  type DescMessage,
  equals,
  fromJsonString,
  type Message,
  ScalarType,
  toBinary,
} from "@bufbuild/protobuf";
import { SourceCodeInfoSchema, StructSchema } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ServiceError, type Violation } from "../../../../src/base/errors.ts";
import { checkJson } from "../../../../src/transport/codec/check.ts";
import { jsonFaults } from "../../../../src/transport/codec/faults.ts";
import { parseJson } from "../../../../src/transport/codec/parse.ts";
import { decodeRequest } from "../../../../src/transport/rest/codec.ts";
import { messageReader } from "../../../../src/transport/rest/reader.ts";
import { createRestRegistry } from "../../../../src/transport/rest/registry.ts";
import { attributes, labels, members, mostly, requestTypes, samples, textsOf } from "../requests.ts";

const registry = createRestRegistry(requestTypes.flatMap(({ file }) => [file, ...file.dependencies]));

/** JSON requests: good ones, with faults, and with members that are given twice or are written in other ways. */
function bodies(desc: DescMessage): fc.Arbitrary<string> {
  return fc.tuple(values(desc), spellings).map(([value, spell]) => spell(JSON.stringify(value)));
}

function values(desc: DescMessage): fc.Arbitrary<unknown> {
  const unknown = fc
    .constantFrom('{"unknown":1}', '{"__proto__":"a"}', '{"toString":"a"}')
    .map((text) => JSON.parse(text));
  const known = members(desc, ({ name }) => name, arbitraryOf);
  const both = fc.tuple(known, unknown).map(([a, b]) => Object.fromEntries([a, b].flatMap(Object.entries)));
  return mostly(known, both, fc.constantFrom(null, [], 1, "a"));
}

function arbitraryOf(field: DescField): fc.Arbitrary<unknown> {
  const odd = fc.constantFrom<unknown>(
    null,
    "",
    0,
    1.5,
    2 ** 53,
    true,
    "PROTECT",
    [],
    {},
    [null],
    [1],
    { a: null },
    { a: 1 },
  );
  switch (field.fieldKind) {
    case "message":
      return mostly(values(field.message), odd);
    case "enum":
      return mostly(fc.constantFrom(...field.enum.values.map(({ jsonName }) => jsonName)), odd);
    case "scalar":
      if (field.scalar === ScalarType.INT64) return mostly(fc.constantFrom(0, 48213, 2 ** 53 - 1, -1), odd);
      return mostly<unknown>(field.scalar === ScalarType.BOOL ? fc.boolean() : textsOf(field), odd);
    case "list":
      return mostly(labels, odd);
    case "map":
      return mostly(attributes, odd);
  }
}

type Spell = (text: string) => string;

const spellings = mostly<Spell>(
  fc.constant((text) => text),
  fc.constant<Spell>((text) => text.replaceAll(":", ": ")),
  fc.constant<Spell>((text) => text.replace(/\{(?=")/, '{"purpose":"first",')),
  fc.constant<Spell>((text) => text.replace('"a"', '"\\u0061"')),
  fc.constant<Spell>((text) => text.replace("48213", "4.8213e4")),
);

const givenTwice = { field: "", rule: "json.duplicate_member", message: "a member is given more than once" };

/** The general way: the whole value is checked, then the text is read by protobuf-es. */
function decodeGenerally(desc: DescMessage, text: string): Message | readonly Violation[] {
  const parsed = parseJson(desc, Buffer.from(text));
  if (checkJson(desc, parsed.value, "rest").length > 0) return jsonFaults(desc, parsed, "rest", () => []);
  try {
    return fromJsonString(desc, text);
  } catch {
    const faults = jsonFaults(desc, parsed, "rest", () => []);
    return faults.length > 0 ? faults : [givenTwice];
  }
}

function decode(desc: DescMessage, text: string): Message | readonly Violation[] {
  try {
    return decodeRequest(desc, Buffer.from(text));
  } catch (error) {
    if (error instanceof ServiceError) return error.details.violations ?? [];
    throw error;
  }
}

describe.each(requestTypes.map((desc) => [desc.name, registry.message(desc)] as const))("%s", (_, desc) => {
  test("is read as protobuf-es reads it, faults included", () => {
    let good = 0;
    const property = fc.property(bodies(desc), (text) => {
      const expected = decodeGenerally(desc, text);
      const actual = decode(desc, text);
      if (Array.isArray(expected) || Array.isArray(actual)) {
        expect(actual).toEqual(expected);
        return;
      }
      if (messageReader(desc)(JSON.parse(text)) !== undefined) good++;
      expect(equals(desc, actual as Message, expected as Message)).toBe(true);
      expect(toBinary(desc, actual as Message)).toEqual(toBinary(desc, expected as Message));
    });
    fc.assert(property, { numRuns: 1000 });
    expect(good).toBeGreaterThan(30);
  });
});

test("ordinary requests take the short way", () => {
  for (const { desc, body } of samples) expect(messageReader(registry.message(desc))(body)).toBeDefined();
});

test("of types with fields of other kinds nothing is read", () => {
  expect(messageReader(StructSchema)({})).toBeUndefined();
  expect(messageReader(SourceCodeInfoSchema)({})).toBeUndefined();
});
