import {
  create,
  type DescEnum,
  type DescField,
  type DescMessage,
  type Message,
  type MessageInitShape,
  ScalarType,
  toBinary,
} from "@bufbuild/protobuf";
import { SourceCodeInfoSchema, StructSchema } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { expect, test } from "vitest";
import { frameEncoder } from "../../../../src/transport/grpc/encode.ts";
import { encodeFrame } from "../../../../src/transport/grpc/frame.ts";
import { wireMethods } from "../../../harness/methods.ts";

const text = fc.oneof(fc.constant(""), fc.string(), fc.string({ unit: "grapheme", maxLength: 300 }));

/** Any message of the type. Texts are empty, short, long enough for every length prefix, and not ASCII alone. */
function messages(desc: DescMessage): fc.Arbitrary<Message> {
  const fields = Object.fromEntries(
    desc.fields.map((field) => [field.localName, fc.option(values(field), { nil: undefined })]),
  );
  return fc.record(fields).map((init) => create(desc, init as MessageInitShape<DescMessage>));
}

function values(field: DescField): fc.Arbitrary<unknown> {
  switch (field.fieldKind) {
    case "message":
      return messages(field.message);
    case "enum":
      return enumNumbers(field.enum);
    case "scalar":
      return scalars(field.scalar);
    case "list":
      return fc.array(items(field), { maxLength: 3 });
    default:
      throw new Error(`${field} is in no answer`);
  }
}

function items(field: DescField & { readonly fieldKind: "list" }): fc.Arbitrary<unknown> {
  if (field.listKind === "message") return messages(field.message);
  return field.listKind === "enum" ? enumNumbers(field.enum) : scalars(field.scalar);
}

function enumNumbers({ values: declared }: DescEnum): fc.Arbitrary<number> {
  return fc.constantFrom(...declared.map(({ number }) => number), -1, 300);
}

function scalars(scalar: ScalarType): fc.Arbitrary<unknown> {
  if (scalar === ScalarType.STRING) return text;
  if (scalar === ScalarType.BOOL) return fc.boolean();
  return scalar === ScalarType.INT64 ? fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n) : fc.integer();
}

test.each(wireMethods.map(({ rpcPath, desc }) => [rpcPath, desc.output] as const))("%s", (_, output) => {
  const encode = frameEncoder(output);
  fc.assert(
    fc.property(messages(output), (message) => {
      expect(encode(message).equals(encodeFrame(toBinary(output, message)))).toBe(true);
    }),
  );
});

test("a frame stays as it is when the next is made, and an answer that fails leaves nothing in it", () => {
  const { desc } = wireMethods[0] as (typeof wireMethods)[number];
  const encode = frameEncoder(desc.output);
  const [one, other] = ["one", "other"].map((service) => create(desc.output, { service } as never));
  const first = encode(one as Message);
  const copy = Buffer.from(first);
  expect(() => encode({ ...create(desc.output), service: "x", caller: { scopes: 1 } } as never)).toThrow();
  expect(encode(other as Message).equals(encodeFrame(toBinary(desc.output, other as Message)))).toBe(true);
  expect(first.equals(copy)).toBe(true);
});

test("types with fields of other kinds, and types within themselves, are written too", () => {
  const struct = create(StructSchema, { fields: { a: { kind: { case: "numberValue", value: 1 } } } });
  expect(frameEncoder(StructSchema)(struct).equals(encodeFrame(toBinary(StructSchema, struct)))).toBe(true);
  const info = create(SourceCodeInfoSchema, { location: [{ path: [1, 2], leadingComments: "a" }] });
  expect(frameEncoder(SourceCodeInfoSchema)(info).equals(encodeFrame(toBinary(SourceCodeInfoSchema, info)))).toBe(true);
});
