/** How many records a protobuf request may have, those of free objects included. */
import { create, type DescMessage, type JsonObject, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import {
  EvaluateManyRequestSchema,
  EvaluateRequestSchema,
  SearchSubjectsRequestSchema,
} from "../../../../gen/platform/authzen/v1/authorization_pb.ts";
import { ServiceError } from "../../../../src/base/errors.ts";
import { readBinary } from "../../../../src/transport/codec/binary-records.ts";

/** Rules and fields of the violations of a message; undefined for one that may be parsed. */
function refusal<Desc extends DescMessage>(desc: Desc, init: MessageInitShape<Desc>) {
  try {
    return void readBinary(desc, toBinary(desc, create(desc, init)));
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return error.details.violations?.map(({ field, rule }) => [rule, field]);
  }
}

const tooMany = [["protobuf.max_fields", ""]];
const nulls = (count: number) => Array.from({ length: count }, () => null);
const members = (count: number) => Object.fromEntries(nulls(count).map((value, i) => [`member-${i}`, value]));
const nested = (depth: number): JsonObject => (depth === 0 ? {} : { a: nested(depth - 1) });
const padding = { padding: "x".repeat(4_096) };

test.each<readonly [string, JsonObject, unknown]>([
  ["a large text", { a: "x".repeat(200_000) }, undefined],
  ["values in a list, as many as JSON may have", { a: nulls(16_000) }, undefined],
  ["values in a list", { a: nulls(40_000) }, tooMany],
  ["values in lists in lists", { a: nulls(200).map(() => nulls(200)) }, tooMany],
  ["members", members(10_000), tooMany],
  ["members of members", { a: { b: members(10_000) } }, tooMany],
  ["objects within each other", { ...padding, a: nested(16) }, undefined],
  ["more of them than parsing takes", { ...padding, a: nested(60) }, [["protobuf", ""]]],
])("%s of a free object", (_name, properties, expected) => {
  expect(refusal(EvaluateRequestSchema, { context: properties })).toEqual(expected);
  expect(refusal(EvaluateRequestSchema, { subject: { properties } })).toEqual(expected);
  expect(refusal(EvaluateManyRequestSchema, { evaluations: [{ resource: { properties } }] })).toEqual(expected);
});

test("a list that is too long is named beside them", () => {
  const evaluations = nulls(9_000).map(() => ({ context: { a: 1 } }));
  expect(refusal(EvaluateManyRequestSchema, { evaluations })).toEqual([["repeated.max_items", "evaluations"]]);
});

test("as many candidates as may be, with some properties", () => {
  const properties = { department: "finance", role: "clerk" };
  const candidates = nulls(1_000).map((_, i) => ({ type: "user", id: `user-${i}`, properties }));
  expect(refusal(SearchSubjectsRequestSchema, { context: { candidates } })).toBe(undefined);
});
