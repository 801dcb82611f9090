/** Arbitrary messages of the types that answers have. */
import {
  create,
  type DescEnum,
  type DescField,
  type DescMessage,
  type Message,
  type MessageInitShape,
  ScalarType,
} from "@bufbuild/protobuf";
import fc from "fast-check";

/** Empty, short, long enough for every length prefix, and not ASCII alone. */
const wellFormed = fc.oneof(fc.constant(""), fc.string(), fc.string({ unit: "grapheme", maxLength: 300 }));

/**
 * Any message of the type: each member is absent, or of its type, with values that no enumeration declares.
 *
 * @param text what its texts are
 */
export function messages(desc: DescMessage, text: fc.Arbitrary<string> = wellFormed): fc.Arbitrary<Message> {
  const fields = Object.fromEntries(
    desc.fields.map((field) => [field.localName, fc.option(values(field, text), { nil: undefined })]),
  );
  return fc.record(fields).map((init) => create(desc, init as MessageInitShape<DescMessage>));
}

function values(field: DescField, text: fc.Arbitrary<string>): fc.Arbitrary<unknown> {
  switch (field.fieldKind) {
    case "message":
      return messages(field.message, text);
    case "enum":
      return enumNumbers(field.enum);
    case "scalar":
      return scalars(field.scalar, text);
    case "list":
      return fc.array(items(field, text), { maxLength: 3 });
    case "map":
      if (field.scalar === ScalarType.STRING)
        return fc.dictionary(wellFormed, text, { maxKeys: 3, noNullPrototype: true });
      throw new Error(`${field} is in no answer`);
  }
}

function items(field: DescField & { readonly fieldKind: "list" }, text: fc.Arbitrary<string>): fc.Arbitrary<unknown> {
  if (field.listKind === "message") return messages(field.message, text);
  return field.listKind === "enum" ? enumNumbers(field.enum) : scalars(field.scalar, text);
}

function enumNumbers({ values: declared }: DescEnum): fc.Arbitrary<number> {
  return fc.constantFrom(...declared.map(({ number }) => number), -1, 300);
}

function scalars(scalar: ScalarType, text: fc.Arbitrary<string>): fc.Arbitrary<unknown> {
  if (scalar === ScalarType.STRING) return text;
  if (scalar === ScalarType.BOOL) return fc.boolean();
  if (scalar === ScalarType.BYTES) return fc.uint8Array();
  return scalar === ScalarType.INT64 ? fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n) : fc.integer();
}
