/** The rules of requests against protovalidate, whose words and order they have. */

import { isDeepStrictEqual } from "node:util";
import { create, type DescMessage, type Message } from "@bufbuild/protobuf";
import { type Path, type ReflectMessage, reflect } from "@bufbuild/protobuf/reflect";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import { createValidator } from "@bufbuild/protovalidate";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { EventItemSchema, RegistrationItemSchema } from "../../../../gen/platform/bulk/v1/records_pb.ts";
import { BulkStreamService, StreamRegistrationsRequestSchema } from "../../../../gen/platform/bulk/v1/streams_pb.ts";
import {
  type RegisterArtifactRequest,
  RegisterArtifactRequestSchema,
} from "../../../../gen/platform/sdk/v1/registration_pb.ts";
import { maxViolations, type Violation } from "../../../../src/base/errors.ts";
import { rulesOf } from "../../../../src/transport/codec/rules.ts";
import { draws } from "../../../harness/draws.ts";
import { excess, requestOf } from "../../../harness/generate.ts";
import { methodOn, requestFromRest, wireMethods } from "../../../harness/methods.ts";
import { requestTypes, samples } from "../requests.ts";

const validator = createValidator({ regexMatch: (pattern, text) => new RegExp(pattern, "u").test(text) });
const types = [...requestTypes, ...BulkStreamService.methods.map(({ input }) => input), EventItemSchema];

/** Path in the names of the JSON routes; positions for the keys of maps. */
function pathOf(path: Path, root: ReflectMessage, forKey: boolean): string {
  let value: unknown = root;
  return path.reduce((text, segment) => {
    if (segment.kind === "field") {
      value = (value as ReflectMessage).get(segment);
      return text === "" ? segment.name : `${text}.${segment.name}`;
    }
    if (segment.kind === "list_sub") {
      value = (value as { get(index: number): unknown }).get(segment.index);
      return `${text}[${segment.index}]`;
    }
    if (segment.kind !== "map_sub") throw new Error("no such path");
    const position = [...(value as ReadonlyMap<unknown, unknown>).keys()].indexOf(segment.key);
    return `${text}[${position}].${forKey ? "key" : "value"}`;
  }, "");
}

function byProtovalidate(desc: DescMessage, message: Message): Violation[] {
  const result = validator.validate(desc, message);
  if (result.kind === "error") throw result.error;
  return (result.violations ?? []).map(({ field, ruleId, message: text, forKey }) => ({
    field: pathOf(field, reflect(desc, message), forKey),
    rule: ruleId,
    message: text,
  }));
}

/** Clears optional members that are empty. */
function clearEmpty(message: ReflectMessage): void {
  for (const field of message.fields.filter((member) => message.isSet(member))) {
    const value: unknown = message.get(field);
    if (field.message !== undefined && field.message.typeName !== StructSchema.typeName) {
      const held = field.fieldKind === "list" ? [...(value as Iterable<ReflectMessage>)] : [value as ReflectMessage];
      for (const inner of held) clearEmpty(inner);
    }
    if (field.proto.proto3Optional && (value === "" || (field.fieldKind === "enum" && value === 0)))
      message.clear(field);
  }
}

const ownRules: readonly string[] = ["string.clean", "json.type"];
/** Long texts and lists are refused for their sizes alone, which are then among the violations of content. */
const sizeRules: readonly string[] = ["string.max_len", "repeated.max_items", "map.max_pairs"];

function isExcessive(value: unknown): boolean {
  if (typeof value === "string") return value.length > 4096;
  if (typeof value !== "object" || value === null) return false;
  return Object.keys(value).length > 1024 || Object.entries(value).flat().some(isExcessive);
}

/** What the handler checks. It comes last. */
const formatRule = "string.rfc3339";

/** Good requests of the types of which a random search draws few: as many as are asked for. */
function goodOnes(desc: DescMessage): [Message][] {
  const body = samples.find((sample) => sample.desc === RegisterArtifactRequestSchema)?.body;
  const registration = requestFromRest(methodOn("/v1/sdk/artifact-register"), body) as RegisterArtifactRequest;
  return [1, 2, 3].flatMap((sequence): [Message][] => {
    const item = create(RegistrationItemSchema, { idempotencyKey: `${sequence}`, registration });
    if (desc === RegistrationItemSchema) return [[item]];
    if (desc !== StreamRegistrationsRequestSchema) return [];
    return [[create(StreamRegistrationsRequestSchema, { sequence: BigInt(sequence), item })]];
  });
}

describe.each(types.map((desc) => [desc.name, desc] as const))("%s", (_, desc) => {
  test("the violations are protovalidate's, after those of content", () => {
    const [counts, rules] = [{ good: 0, broken: 0 }, rulesOf(desc)];
    const property = fc.property(requestOf(desc, excess), (message) => {
      const twin = structuredClone(message);
      const found = rules(message);
      clearEmpty(reflect(desc, twin));
      expect(message).toEqual(twin);
      const expected = byProtovalidate(desc, twin);
      counts[found.length === 0 ? "good" : "broken"]++;
      const content = found.filter(({ rule }) => ownRules.includes(rule));
      const others = found.filter(({ rule }) => !ownRules.includes(rule) && rule !== formatRule);
      const broken = expected.slice(0, maxViolations);
      const onlySizes = others.length > 0 && others.every(({ rule }) => sizeRules.includes(rule));
      if (onlySizes && isExcessive(message) && !isDeepStrictEqual(others, broken)) {
        const named = new Set(expected.map(({ field, rule }) => `${field} ${rule}`));
        expect(others.filter(({ field, rule }) => !named.has(`${field} ${rule}`))).toEqual([]);
        return;
      }
      expect(others).toEqual(broken);
      const hasSizes = others.some(({ rule }) => sizeRules.includes(rule));
      if (!hasSizes) expect(found.slice(0, content.length)).toEqual(content);
    });
    fc.assert(property, { numRuns: draws(300, 1_000), examples: goodOnes(desc) });
    if (desc.fields.length > 0) expect(Math.min(counts.good, counts.broken)).toBeGreaterThan(2);
  });
});

test("ordinary requests have no violations", () => {
  for (const { desc, body } of samples) {
    const method = wireMethods.find((candidate) => candidate.desc.input === desc);
    expect(rulesOf(desc)(requestFromRest(method ?? methodOn(""), body))).toEqual([]);
  }
});
