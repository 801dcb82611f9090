import { expect, test } from "vitest";
import { utf8Text } from "../../../src/base/text-forms.ts";
import { inputCatalogue } from "../../../src/policy/model/inputs.ts";
import { publishedSchema, schemaFor } from "../../../src/policy/model/schema.ts";
import { ask, declaredAttributes, declaringFiles, engineOf, type Files, openFiles, problemsOf } from "./harness.ts";

const declaring = (text: string): Files => ({
  ...openFiles,
  "manifest.yaml": `${openFiles["manifest.yaml"]}caller_attributes:\n${text}\n`,
});
const withPolicy = (condition: string): Files => ({
  ...declaringFiles,
  "default/rule.cedar": `@id("rule") forbid (principal, action, resource) when { ${condition} };`,
});
const manyAttributes = Array.from({ length: 33 }, (_, index) => `  a${index}: { type: text }`).join("\n");

test.each([
  ["that is no map", "  [clearance]", /caller_attributes must be a map/],
  ["of an unknown type", "  clearance: { type: number }", /clearance\.type must be one of text, set_of_text/],
  ["without a type", "  clearance: {}", /clearance\.type must be one of/],
  ["with a member that is not known", "  clearance: { type: text, default: a }", /unknown member default/],
  ["that is perhaps required", "  a: { type: text, required: maybe }", /a\.required must be true or false/],
  ["without a place", '  a: { type: text, claim: "" }', /a\.claim must name a claim/],
  ["with a gap in its place", "  a: { type: text, claim: a..b }", /a\.claim must name a claim/],
  ["with a map as its place", "  a: { type: text, claim: { b: c } }", /a\.claim must name a claim/],
  ["with a list within a list", "  a: { type: text, claim: [[b]] }", /a\.claim must name a claim/],
  ["too deep", "  a: { type: text, claim: a.b.c.d.e.f.g.h.i }", /a\.claim must name a claim/],
  ["whose name is taken", "  scopes: { type: text }", /cannot have the name "scopes"/],
  ["whose name is no name", "  Clearance: { type: text }", /cannot have the name "Clearance"/],
  ["called __proto__", "  __proto__: { type: text }", /cannot have the name "__proto__"/],
  ["called as Cedar's own word", "  in: { type: text }", /cannot have the name "in"/],
  ["that comes twice", "  a: { type: text }\n  a: { type: yes_no }", /Map keys must be unique/],
  ["as the thirty-third", manyAttributes, /has more than 32 attributes/],
])("a declaration is refused %s", async (_name, text, expected) => {
  expect(await problemsOf(declaring(text))).toEqual([expect.stringMatching(expected)]);
});

test("declarations are part of the bundle, and a directory without them has none", async () => {
  const { content, callerAttributes } = await engineOf(declaringFiles);
  expect(JSON.parse(utf8Text(content)).callerAttributes).toEqual(declaredAttributes);
  expect(callerAttributes).toEqual(declaredAttributes);
  const plain = await engineOf(openFiles);
  expect(JSON.parse(utf8Text(plain.content))).not.toHaveProperty("callerAttributes");
  expect(JSON.parse(utf8Text(plain.content)).schema).toBe(publishedSchema);
});

test("the name of a claim may contain dots", async () => {
  const { callerAttributes } = await engineOf(
    declaring('  ward: { type: text, claim: ["https://hospital.example/ward", name] }'),
  );
  expect(callerAttributes.ward?.claim).toEqual(["https://hospital.example/ward", "name"]);
});

test("a copy of the schema may have what this directory declares, and nothing else", async () => {
  const schema = schemaFor({ callerAttributes: declaredAttributes });
  for (const copy of [schema, publishedSchema, schema.replaceAll("\n", "\r\n")]) {
    expect(await problemsOf({ ...declaringFiles, "schema.cedarschema": copy })).toEqual([]);
  }
  expect(await problemsOf({ ...openFiles, "schema.cedarschema": schema })).toEqual([
    expect.stringMatching(/^schema\.cedarschema: differs from the schema of this version/),
  ]);
});

test("undeclared attributes are ignored", async () => {
  const engine = await engineOf(
    withPolicy('principal.clearance < 2 || principal has roles && principal.roles.contains("x")'),
  );
  const more = { clearance: 2, shoe_size: 44, __proto__: { roles: ["x"] } };
  expect(engine.decide(ask("protect", {}, { attributes: more as never })).allow).toBe(true);
});

test("tags with dots in their names stay separate", () => {
  const catalogue = inputCatalogue({});
  expect(catalogue.tagOf("attributes.a.b")).toMatchObject({ key: "a.b" });
  expect(catalogue.tagOf("attributes")).toBeUndefined();
  expect(() => catalogue.reader("caller.attributes.clearance")).toThrow(TypeError);
});
