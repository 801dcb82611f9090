/** Answers as the JSON routes and gRPC write them, against the writers of protobuf-es. */
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
import fc from "fast-check";
import { expect, test } from "vitest";
import { messageEncoder } from "../../../../dev/rest-json.ts";
import { ReceiptSchema } from "../../../../gen/platform/sdk/v1/common_pb.ts";
import { encodeFrame, frameEncoder } from "../../../../src/transport/grpc/frame.ts";
import { answerEncoder } from "../../../../src/transport/rest/answer.ts";
import { draws } from "../../../harness/draws.ts";
import { furtherMethods, registry, wireMethods } from "../../../harness/methods.ts";

/** Empty, short, long enough for every length prefix, and not ASCII alone. */
const wellFormed = fc.oneof(fc.constant(""), fc.string(), fc.string({ unit: "grapheme", maxLength: 300 }));

/** What JSON escapes, what UTF-8 writes in one to four bytes, what Latin-1 has too, and halves of a surrogate pair. */
const piece = fc.constantFrom('"', "\\", "\n", "\u0000", "\u001f", "\u007f", "a", "é", "\u0080", "—", "\u2028", "😀");
const half = fc.constantFrom("\ud83d", "\ude00");
const text = fc.oneof(
  fc.string(),
  ...[0, 128, 300].map((minLength) => fc.string({ unit: piece, minLength, maxLength: 2 * minLength + 8 })),
  ...[0, 128].map((minLength) => fc.string({ unit: fc.oneof(piece, half), minLength, maxLength: minLength + 8 })),
);

const runs = { numRuns: draws(30, 100) };

/** Compares bytes, in both ways that a message can be met: by itself, and after others. */
function expectAlike(desc: DescMessage, encode: (message: Message) => string, message: Message): void {
  const expected = Buffer.from(messageEncoder(registry.message(desc))(message));
  expect(Buffer.from(encode(message), "latin1").equals(expected)).toBe(true);
  expect(Buffer.from(answerEncoder(desc)(message), "latin1").equals(expected)).toBe(true);
}

test.each([...wireMethods, ...furtherMethods].map(({ restPath, desc }) => [restPath, desc.output] as const))(
  "%s",
  (_, desc) => {
    const encode = answerEncoder(desc);
    fc.assert(
      fc.property(messages(desc, text), (message) => expectAlike(desc, encode, message)),
      runs,
    );
    // Texts that are all of one kind: most answers are of ASCII alone, save for the proof.
    fc.assert(
      fc.property(messages(desc, fc.string({ maxLength: 300 })), (message) => expectAlike(desc, encode, message)),
      runs,
    );
  },
);

test("text that reads as a character beyond ASCII in bytes is written as it is", () => {
  const text = "\u00e2\u0080\u0094";
  const receipt = create(ReceiptSchema, {
    recordId: text,
    proof: `${text}${"a".repeat(200)}`,
    leafIndex: 2n ** 63n - 1n,
  });
  expectAlike(ReceiptSchema, answerEncoder(ReceiptSchema), receipt);
});

test("an answer with a member of another type fails as it did, and nothing of it stands in the next", () => {
  const encode = answerEncoder(ReceiptSchema);
  const proof = "—".repeat(40) + "a".repeat(100);
  const next = create(ReceiptSchema, { recordId: "é".repeat(120), proof: "a".repeat(200) });
  for (const wrong of [{ recordId: 1 }, { leafIndex: 1.5 }, { treeSize: undefined }, { leaf: null }]) {
    expect(() => encode({ ...create(ReceiptSchema, { proof }), ...wrong } as never)).toThrow();
    // As many characters beyond ASCII as were bytes of the proof.
    expectAlike(ReceiptSchema, encode, next);
  }
  const whoami = wireMethods.find(({ restPath }) => restPath.endsWith("/whoami"))?.desc.output as DescMessage;
  const caller = { tenantId: "", principalId: "", subject: "", authSource: "" };
  const encodeWhoami = answerEncoder(whoami);
  for (const scopes of [undefined, 1, [1]])
    expect(() => encodeWhoami({ ...create(whoami), caller: { scopes, ...caller } } as never)).toThrow();
});

test.each(wireMethods.map(({ rpcPath, desc }) => [rpcPath, desc.output] as const))("%s in a frame", (_, output) => {
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

/**
 * Any message of the type: each member is absent, or of its type, with values that no enumeration declares.
 *
 * @param text what its texts are
 */
function messages(desc: DescMessage, text: fc.Arbitrary<string> = wellFormed): fc.Arbitrary<Message> {
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
