/** The short way of validation says yes only where the general way has nothing to do and nothing to say. */
import { create, type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import { SourceCodeInfoSchema, StructSchema } from "@bufbuild/protobuf/wkt";
import { createValidator } from "@bufbuild/protovalidate";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FieldRulesSchema } from "../../../../gen/buf/validate/validate_pb.ts";
import { fastValidator } from "../../../../src/transport/codec/fast-validation.ts";
import { normalize } from "../../../../src/transport/codec/normalize.ts";
import { createRules } from "../../../../src/transport/codec/validate.ts";
import { methodOn, requestFromRest, wireMethods } from "../../../harness/methods.ts";
import { attributes, labels, members, mostly, requestTypes, samples, textsOf } from "../requests.ts";

const matches = (pattern: string, text: string) => new RegExp(pattern, "u").test(text);
const validator = createValidator({ regexMatch: matches });

function messages(desc: DescMessage): fc.Arbitrary<Message> {
  return members(desc, ({ localName }) => localName, arbitraryOf).map((init) => create(desc, init as never));
}

function arbitraryOf(field: DescField): fc.Arbitrary<unknown> {
  switch (field.fieldKind) {
    case "message":
      return messages(field.message);
    case "enum":
      return mostly(fc.constantFrom(...field.enum.values.map(({ number }) => number)), fc.constantFrom(0, -1, 300));
    case "scalar":
      return field.scalar === ScalarType.INT64
        ? mostly(fc.constantFrom(0n, 48213n, 2n ** 53n - 1n), fc.constantFrom(-1n, 2n ** 53n, 2n ** 63n - 1n))
        : textsOf(field);
    case "list":
      return labels;
    case "map":
      return attributes;
  }
}

describe.each(requestTypes.map((desc) => [desc.name, desc] as const))("%s", (_, desc) => {
  const isGood = fastValidator(desc, matches);

  test("is of a kind that can be told", () => {
    expect(isGood).toBeDefined();
  });

  test("good as it is: nothing to normalize, nothing to refuse", () => {
    let good = 0;
    const property = fc.property(messages(desc), (message) => {
      if (!isGood?.(message)) return;
      good++;
      const before = structuredClone(message);
      expect(normalize(desc, message)).toEqual([]);
      expect(message).toEqual(before);
      expect(validator.validate(desc, message).kind).toBe("valid");
    });
    fc.assert(property, { numRuns: 1000 });
    expect(good).toBeGreaterThan(30);
  });

  test("the rules are the same with the short way and without", () => {
    const [short, general] = [createRules([{ desc, sample: create(desc) }]), createRules([])];
    const property = fc.property(messages(desc), (message) => {
      const twin = structuredClone(message);
      expect(short(desc, message)).toEqual(general(desc, twin));
      expect(message).toEqual(twin);
    });
    fc.assert(property, { numRuns: 500 });
  });
});

test("ordinary requests take the short way", () => {
  for (const { desc, body } of samples) {
    const method = wireMethods.find((candidate) => candidate.desc.input === desc);
    const message = requestFromRest(method ?? methodOn(""), body);
    expect(fastValidator(desc, matches)?.(message)).toBe(true);
  }
});

test("of types with fields or rules of other kinds nothing is said", () => {
  for (const desc of [StructSchema, SourceCodeInfoSchema, FieldRulesSchema])
    expect(fastValidator(desc, matches)).toBeUndefined();
});
