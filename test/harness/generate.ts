/** Requests of any method at random: good ones mostly, and every kind of borderline and bad value among them. */
import { create, type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import fc, { type Arbitrary } from "fast-check";

const maxLengths: Readonly<Record<string, number>> = {
  purpose: 1024,
  outcome: 1024,
  artifact_locator: 2048,
  mime_type: 255,
  occurred_at: 64,
};
const cid = "bafkreibme22gw2h7y2h7tg2fhqotaqjucnbc24deqo72b6mkl2egezxhvy";
const fooDigest = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

/** Good values of members that take no arbitrary text. */
const samples: Readonly<Record<string, readonly string[]>> = {
  content_digest: [fooDigest, "sha256:integration-full-plaintext", "md5:00", "x+y.z-1:\u00e9"],
  artifact_digest: [fooDigest, "sha512:ab", "own:value:with:colons"],
  artifact_cid: [cid, "not-a-cid"],
  artifact_merkle_root_cid: [cid],
  artifact_object_b64: [Buffer.from("foo").toString("base64")],
  artifact_locator: ["s3://bucket/key", "https://user:pass@host/path?sig=x#f", "urn:x"],
  decision_id: ["01890a5d-ac96-774b-bcce-b302099a8057", "unknown"],
  key_reference: ["kms://tenant-a/keys/42", "local-tdf-key"],
  occurred_at: ["2026-03-01T12:00:00Z", "0001-01-01T00:00:00Z", "2126-01-01T00:00:00.123456789+14:00"],
};
const badSamples: Readonly<Record<string, readonly string[]>> = {
  content_digest: ["nocolon", ":value", "sha256:", "SHA256:ab"],
  artifact_digest: ["nocolon", ":value", "sha256:", "SHA256:ab"],
  artifact_object_b64: ["Zm9", "Zm9v\n", "_-8=", "====", "YmFy"],
  occurred_at: [
    "yesterday",
    "2026-02-30T00:00:00Z",
    "2026-03-01 12:00:00Z",
    "2026-03-01T12:00:00",
    "2026-03-01T24:00:00Z",
  ],
};

const free = mostly(
  fc.constantFrom<object>({ a: "b" }, { a: { b: [1, { c: "d" }], e: {} }, f: [[null, true]] }),
  fc.dictionary(fc.constantFrom("a", "\0"), fc.constantFrom("b", 2 ** 53, 1)),
);

/** Beyond what is looked at member by member. */
interface Excess {
  readonly counts: readonly number[];
  readonly texts: readonly string[];
}
const noExcess: Excess = { counts: [], texts: [] };
export const excess: Excess = { counts: [1_024, 1_025], texts: ["x".repeat(5_000), "\ud800".repeat(4_097)] };

/** Any request of a message type. */
export function requestOf(desc: DescMessage, beyond = noExcess): Arbitrary<Message> {
  return membersOf(desc, beyond).map((members) => create(desc, members as never));
}

function membersOf(desc: DescMessage, beyond: Excess): Arbitrary<Record<string, unknown>> {
  const members = Object.fromEntries(desc.fields.map((field) => [field.localName, memberOf(field, beyond)]));
  const required = desc.fields.filter((field) => !isOptional(field)).map(({ localName }) => localName);
  return mostly(
    fc.record(members, { requiredKeys: required }),
    // Any member may be missing.
    fc.record(members, { requiredKeys: [] }),
  );
}

function isOptional({ proto, fieldKind }: DescField): boolean {
  return proto.proto3Optional || fieldKind === "list" || fieldKind === "map";
}

function memberOf(field: DescField, beyond: Excess): Arbitrary<unknown> {
  switch (field.fieldKind) {
    case "message":
      return field.message.typeName === StructSchema.typeName ? free : membersOf(field.message, beyond);
    case "enum": {
      const numbers = field.enum.values.map(({ number }) => number);
      return mostly(fc.constantFrom(...numbers.filter((number) => number !== 0)), fc.constantFrom(0, 99, -1));
    }
    case "list":
      if (field.listKind === "message") return fc.array(membersOf(field.message, beyond), { maxLength: 3 });
      return mostly(
        fc.array(text(256), { maxLength: 3 }),
        fc.constantFrom(
          ...[64, 65, ...beyond.counts].map((count) => Array(count).fill("a")),
          ["x".repeat(257)],
          ["\0"],
        ),
      );
    case "map":
      return mostly(
        fc.dictionary(fc.string({ minLength: 1, maxLength: 9 }), text(64), { maxKeys: 3, noNullPrototype: true }),
        fc.constantFrom(
          ...[64, 65, ...beyond.counts].map(pairs),
          { "": "empty key" },
          { ["k".repeat(128)]: "v".repeat(1024) },
          { ["k".repeat(129)]: "" },
          { a: "1", b: "v".repeat(1025) },
          { "\0": "" },
          { constructor: "1", toString: "2" },
        ),
      );
    case "scalar":
      return scalar(field, beyond);
  }
}

function scalar(field: DescField & { fieldKind: "scalar" }, beyond: Excess): Arbitrary<unknown> {
  if (field.scalar === ScalarType.BOOL) return fc.boolean();
  if (field.scalar === ScalarType.INT64) {
    return mostly(
      fc.constantFrom(0n, 1n, 48_213n, 2n ** 53n - 1n),
      fc.constantFrom(-1n, 2n ** 53n, 2n ** 63n - 1n, -(2n ** 63n)),
    );
  }
  const good = samples[field.name];
  const bad = badSamples[field.name] ?? [];
  const maxLength = maxLengths[field.name] ?? 256;
  const odd = ["", "x".repeat(maxLength), "x".repeat(maxLength + 1), "\ud83d\ude00".repeat(maxLength), "a\0b"];
  return mostly(
    good === undefined ? text(maxLength) : fc.constantFrom(...good),
    fc.constantFrom(...odd, ...bad, ...beyond.texts),
  );
}

/** Good text: never empty, since members may have to be there. */
function text(maxLength: number): Arbitrary<string> {
  return mostly(
    fc.string({ minLength: 1, maxLength: Math.min(maxLength, 12) }),
    fc.string({ unit: "binary", minLength: 1, maxLength: 12 }).map((value) => value.replaceAll("\0", "?")),
  );
}

/** Sixteen of the first to one of the second: requests of a dozen members are good about as often as not. */
function mostly<T>(good: Arbitrary<T>, odd: Arbitrary<T>): Arbitrary<T> {
  return fc.oneof({ arbitrary: good, weight: 16 }, { arbitrary: odd, weight: 1 });
}

function pairs(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, ""]));
}
