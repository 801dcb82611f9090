import { clone, create, createFileRegistry, type MessageInitShape, setExtension } from "@bufbuild/protobuf";
import { FieldOptionsSchema, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { FieldRulesSchema, field as fieldRules } from "../../../../gen/buf/validate/validate_pb.ts";
import { PlanProtectionRequestSchema } from "../../../../gen/platform/sdk/v1/protection_pb.ts";
import { describe, describeWithoutName, translateRules } from "../../../../scripts/openapi/schemas.ts";

test("rules of the contract become keywords", () => {
  const { attributes, labels, contentSizeBytes, operation } = PlanProtectionRequestSchema.field;
  expect(translateRules(labels)).toEqual({
    required: false,
    own: { maxItems: 64 },
    items: { maxLength: 256 },
    keys: {},
  });
  expect(translateRules(attributes)).toEqual({
    required: false,
    own: { maxProperties: 64 },
    items: { maxLength: 1024 },
    keys: { minLength: 1, maxLength: 128 },
  });
  expect(translateRules(contentSizeBytes).own).toEqual({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
  expect(translateRules(operation)).toEqual({ required: true, own: {}, items: {}, keys: {} });
});

const unsupported: [string, MessageInitShape<typeof FieldRulesSchema>][] = [
  ["string.email", { type: { case: "string", value: { wellKnown: { case: "email", value: true } } } }],
  ["string.prefix", { type: { case: "string", value: { prefix: "x" } } }],
  ["cel", { cel: [{ id: "x", expression: "true" }] }],
];
test.each(unsupported)("a rule without a keyword is an error: %s", (_name, rules) => {
  const { file } = PlanProtectionRequestSchema;
  const proto = clone(FileDescriptorProtoSchema, file.proto);
  const purpose = proto.messageType
    .find(({ name }) => name === "PlanProtectionRequest")
    ?.field.find(({ name }) => name === "purpose");
  if (purpose === undefined) throw new Error("the contract has changed");
  purpose.options = create(FieldOptionsSchema);
  setExtension(purpose.options, fieldRules, create(FieldRulesSchema, rules));
  const find = (path: string) => file.dependencies.find((dependency) => dependency.proto.name === path);
  const changed = createFileRegistry(proto, find).getMessage(PlanProtectionRequestSchema.typeName);
  const field = changed?.fields.find(({ name }) => name === "purpose");
  if (field === undefined) throw new Error("the contract has changed");
  expect(() => translateRules(field)).toThrow("has no keyword");
});

test("comments give descriptions, examples and marks", () => {
  const comments = {
    "p.M.a": "Name of it. Example: `x y`.",
    "p.M.b": "Additive. Size in bytes. Example: `12`. At most 20.",
    "p.M.c": "Pairs. Example: `region` = `eu`.",
    "p.S.Get": "Get returns it. Call it once.",
    "p.S.GetAll": "Gets all.",
  };
  expect(describe(comments, "p.M.a")).toEqual({ description: "Name of it.", examples: ["x y"], additive: false });
  expect(describe(comments, "p.M.b", "number")).toEqual({
    description: "Additive. Size in bytes. At most 20.",
    examples: [12],
    additive: true,
  });
  expect(describe(comments, "p.M.c").examples).toEqual([]);
  expect(describeWithoutName(comments, "p.S.Get")).toBe("Returns it. Call it once.");
  expect(describeWithoutName(comments, "p.S.GetAll")).toBe("Gets all.");
});
