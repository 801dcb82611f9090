/** The reader of JSON requests beside that of protobuf-es: generated bodies, most of them with some fault. */
import {
  type DescMessage,
  equals,
  fromJson,
  fromJsonString,
  type JsonValue,
  type Message,
  toBinary,
  toJson,
} from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createRestRegistry } from "../../../../dev/rest-json.ts";
import {
  type PlanProtectionRequest,
  PlanProtectionRequestSchema,
} from "../../../../gen/platform/sdk/v1/protection_pb.ts";
import { CreateSessionRequestSchema } from "../../../../gen/platform/sdk/v1/session_pb.ts";
import { ServiceError } from "../../../../src/base/errors.ts";
import { parseJson } from "../../../../src/base/json.ts";
import { isOpen } from "../../../../src/transport/codec/contract.ts";
import { readJson, type Spelling } from "../../../../src/transport/codec/json-reader.ts";
import { collectGarbage } from "../../../harness/collect-garbage.ts";
import { draws } from "../../../harness/draws.ts";
import { excess, requestOf } from "../../../harness/generate.ts";
import { contractServices } from "../../../harness/methods.ts";
import { goodBody, requestTypes } from "../requests.ts";

const registry = createRestRegistry(
  [...contractServices, CreateSessionRequestSchema].flatMap(({ file }) => [file, ...file.dependencies]),
);
/** JSON text of strings, in several spellings. */
const quoted = (text: string): fc.Arbitrary<string> =>
  fc.oneof(
    { weight: 12, arbitrary: fc.constant(JSON.stringify(text)) },
    {
      weight: 1,
      arbitrary: fc.nat().map((n) => {
        if (text === "") return '""';
        const at = n % text.length;
        const escaped = `\\u${text.charCodeAt(at).toString(16).padStart(4, "0")}`;
        return `"${JSON.stringify(text.slice(0, at)).slice(1, -1)}${escaped}${JSON.stringify(text.slice(at + 1)).slice(1, -1)}"`;
      }),
    },
  );
const space = fc.oneof(
  { weight: 20, arbitrary: fc.constant("") },
  { weight: 1, arbitrary: fc.constantFrom(" ", "\n\t", "\r  ") },
);
const oddText = fc.oneof(
  fc.constantFrom(
    ...["", "a", "\0", "a\0b", "\ud800", "x\udc00y", "é", "😀", "a\nb", '"', "\\", "__proto__", "sha256:00", "sha256:"],
    ...["protect", "PROTECT", "tdf", "12", "-9223372036854775808", "9223372036854775808", "2026-13-01"],
  ),
  fc
    .constantFrom(63, 64, 65, 256, 257, 1024, 1025, 5000)
    .chain((n) => fc.constantFrom("a", "é", "😀", '\\"').map((c) => c.repeat(n))),
);
const literals = "null true false 0 -0 1 1.5 1.0 4.8213e4 1e400 -1 9007199254740991 9007199254740992 1e-9 48213";
const scalarJson = fc.oneof(oddText.chain(quoted), fc.constantFrom(...literals.split(" ")));
const name = fc.constantFrom(
  ...["a", "b", "x", "__proto__", "toString", "purpose", "labels", "-", "a b", "\0", "é", "", "constructor"],
);

const list = (items: fc.Arbitrary<string>, size = 4): fc.Arbitrary<string> =>
  fc.tuple(fc.array(items, { maxLength: size }), space).map(([all, gap]) => `[${gap}${all.join(`,${gap}`)}${gap}]`);
const object = (members: fc.Arbitrary<readonly [string, string]>, size = 5): fc.Arbitrary<string> =>
  fc
    .tuple(fc.array(members, { maxLength: size }), space)
    .map(([all, gap]) => `{${gap}${all.map(([n, v]) => `${n}${gap}:${gap}${v}`).join(`,${gap}`)}${gap}}`);
const named = (names: fc.Arbitrary<string>, values: fc.Arbitrary<string>) => fc.tuple(names.chain(quoted), values);

const { any } = fc.letrec<{ any: string }>((tie) => ({
  any: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    scalarJson,
    list(tie("any")),
    object(named(name, tie("any"))),
  ),
}));
const deep = fc
  .nat(24)
  .chain((depth) =>
    fc
      .constantFrom(["[", "]"], ['{"a":', "}"])
      .map(([open = "", close = ""]) => `${open.repeat(depth)}1${close.repeat(depth)}`),
  );

/** Text of a value, now and then with another value, a member more or a member twice somewhere in it. */
function written(value: JsonValue): fc.Arbitrary<string> {
  const others = fc.oneof({ weight: 6, arbitrary: any }, { weight: 1, arbitrary: deep });
  return fc.oneof({ weight: 25, arbitrary: usual(value) }, { weight: 1, arbitrary: others });
}

function usual(value: JsonValue): fc.Arbitrary<string> {
  // 64-bit integers, which the library writes as text.
  if (typeof value === "string" && /^-?\d+$/.test(value))
    return fc.oneof({ weight: 3, arbitrary: fc.constant(value) }, quoted(value), fc.constant(`${value}.0`));
  if (typeof value === "string") return quoted(value);
  if (typeof value !== "object" || value === null) return fc.constant(JSON.stringify(value));
  const parts: fc.Arbitrary<string>[] = [];
  const member = ([key, inner]: [string, JsonValue]) =>
    fc.tuple(quoted(key), space, written(inner)).map(([name, gap, text]) => `${name}${gap}:${gap}${text}`);
  // Long lists and maps are about their length.
  const isLong = Object.keys(value).length > 20;
  if (isLong) return fc.constant(JSON.stringify(value));
  if (Array.isArray(value)) parts.push(...value.map(written));
  else {
    parts.push(...Object.entries(value).map(member));
    const twice = fc.constantFrom(...Object.entries(value), ["x", 1] as [string, JsonValue]).chain(member);
    const extra = fc.oneof(
      twice,
      named(name, any).map((pair) => pair.join(":")),
    );
    parts.splice(
      parts.length >> 1,
      0,
      fc.oneof({ weight: 12, arbitrary: fc.constant("") }, { weight: 1, arbitrary: extra }),
    );
  }
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return fc.tuple(space, ...parts).map(([gap, ...all]) => {
    return `${open}${gap}${all.filter((part) => part !== "").join(`${gap},${gap}`)}${gap}${close}`;
  });
}

/** Bodies of a type: `described` is the type as this spelling names its members. */
function objectOf(desc: DescMessage, described: DescMessage, spelling: Spelling): fc.Arbitrary<string> {
  const canonical = fc.record({ useProtoFieldName: fc.boolean(), enumAsInteger: fc.boolean() });
  return fc
    .tuple(requestOf(desc, excess), spelling === "rest" ? fc.constant({}) : canonical)
    .chain(([message, options]) => written(toJson(described, message, options)));
}

function bodies(desc: DescMessage, described: DescMessage, spelling: Spelling): fc.Arbitrary<Buffer> {
  const text = fc.oneof(
    { weight: 20, arbitrary: objectOf(desc, described, spelling) },
    { weight: 1, arbitrary: any },
    { weight: 1, arbitrary: fc.constantFrom("", " ", "\ufeff{}", "{}", "{} ", "{}x", "[", "nul") },
  );
  const edits = fc.array(fc.tuple(fc.nat(), fc.constantFrom(...'{}[],:"\\0 a', "\xff", "\n", "\u0000", "")), {
    maxLength: 1,
  });
  return fc
    .tuple(text, fc.oneof({ weight: 4, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: edits }))
    .map(([body, changes]) => {
      let bytes = Buffer.from(body);
      for (const [at, put] of changes as [number, string][]) {
        const place = at % (bytes.length + 1);
        bytes = Buffer.concat([
          bytes.subarray(0, place),
          Buffer.from(put, "latin1"),
          bytes.subarray(put === "" ? place + 1 : place + (at % 2)),
        ]);
      }
      return bytes;
    });
}

type Outcome = { message: Message } | { rules: readonly string[] };

function read(desc: DescMessage, body: Buffer, spelling: Spelling): Outcome {
  try {
    return { message: readJson(desc, body, spelling) };
  } catch (error) {
    if (error instanceof ServiceError) return { rules: (error.details.violations ?? []).map(({ rule }) => rule) };
    throw error;
  }
}

/** Undefined if protobuf-es refuses the body. */
function readByLibrary(desc: DescMessage, body: Buffer, spelling: Spelling): Message | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
    const options = { ignoreUnknownFields: spelling === "rest" && isOpen(desc) };
    // Refuses members given twice, but may misread names.
    fromJsonString(desc, text, options);
    return fromJson(desc, parseJson(text) as JsonValue, options);
  } catch {
    return undefined;
  }
}

/** Rules that are no part of protobuf JSON. Those of the definitions are checked once there is a fault. */
const ownRules = new Set([
  ...["enum.defined_only", "int64.gte_lte", "map.max_pairs", "repeated.max_items", "required"],
  ...["depth", "max_items", "type"].map((rule) => `json.${rule}`),
  ...["clean", "max_len", "min_len", "pattern", "rfc3339"].map((rule) => `string.${rule}`),
]);

describe.each(["rest", "canonical"] as const)("%s", (spelling) => {
  test.each(requestTypes.map((desc) => [desc.name, desc] as const))(
    "%s is read as protobuf-es reads it",
    (_, original) => {
      const desc = spelling === "rest" ? registry.message(original) : original;
      let good = 0;
      const property = fc.property(bodies(original, desc, spelling), (body) => {
        const expected = readByLibrary(desc, body, spelling);
        const actual = read(original, body, spelling);
        if ("rules" in actual) {
          if (expected !== undefined) expect(actual.rules.filter((rule) => !ownRules.has(rule))).toEqual([]);
          expect(actual.rules).not.toEqual([]);
          return;
        }
        good++;
        // The library looks into unknown members, which are ignored.
        if (expected === undefined && spelling === "rest" && isOpen(desc)) return;
        if (expected === undefined) throw new Error("protobuf-es refuses the body");
        expect(equals(desc, actual.message, expected)).toBe(true);
        expect(Buffer.from(toBinary(desc, actual.message)).equals(toBinary(desc, expected))).toBe(true);
      });
      const plain = goodBody(original) as JsonValue;
      const usual = spelling === "rest" ? plain : toJson(desc, fromJson(registry.message(original), plain));
      fc.assert(property, { numRuns: draws(75, 300), examples: [[Buffer.from(JSON.stringify(usual))]] });
      expect(good).toBeGreaterThan(0);
    },
  );
});

test("a message keeps nothing of a large body but its own texts", () => {
  const desc = PlanProtectionRequestSchema;
  const purpose = "a text that is longer than a slice";
  const body = Buffer.from(`{"purpose":"${purpose}","content_digest":"${"x".repeat(150_000)}"}`);
  const before = process.memoryUsage().heapUsed;
  const kept = Array.from({ length: 400 }, () => (readJson(desc, body, "rest") as PlanProtectionRequest).purpose);
  expect(kept.every((text) => text === purpose)).toBe(true);
  collectGarbage();
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(40_000_000);
});

const plan = '{"operation":"protect","workload":{"application":"a"},"resource":{"kind":"k"}';

test.each<[string, string, readonly (readonly [string, string])[]]>([
  [
    "faults of the last are named for themselves",
    `${plan},"workload":{"application":1}}`,
    [
      ["workload.application", "json.type"],
      ["workload", "json.duplicate_member"],
    ],
  ],
  ["an unknown member is named once", `${plan},"x":1,"x":2}`, [["x", "json.unknown_field"]]],
  ["a map has any name", `${plan},"attributes":{"\\u005f_proto__":"v"}}`, []],
])("%s", (_, body, expected) => {
  const desc = PlanProtectionRequestSchema;
  let found: unknown = [];
  try {
    readJson(desc, body, "rest");
  } catch (error) {
    found = (error as ServiceError).details.violations?.map(({ field, rule }) => [field, rule]);
  }
  expect(found).toEqual(expected);
});
