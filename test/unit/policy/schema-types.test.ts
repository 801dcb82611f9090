/** Values of questions that do not have the schema's types are not evaluated: here Cedar validates, and accepts the same. */
import { expect, test } from "vitest";
import type { PolicyQuery } from "../../../src/policy/model/decision.ts";
import { hasSchemaTypes, inputCatalogue } from "../../../src/policy/model/inputs.ts";
import { knowingFiles } from "./entities.ts";
import { ask, bundleOf, declaredAttributes, permitAll } from "./harness.ts";
import { wholeAnswer } from "./whole-question.ts";

const bundle = await bundleOf(knowingFiles);
const catalogue = inputCatalogue(bundle);
const validated = wholeAnswer("validated", [permitAll], bundle.schema);

const strange: readonly unknown[] = [
  ...[
    undefined,
    null,
    true,
    "",
    "a",
    "\ud800",
    "a\udfff",
    "\0",
    "😀",
    {},
    [],
    ["a", "a"],
    ["a", 1],
    ["\ud800"],
    [null],
  ],
  ...[
    0,
    -0,
    -1,
    1.5,
    Number.NaN,
    2 ** 53,
    2 ** 63 - 1024,
    2 ** 63,
    -(2 ** 63) + 1024,
    -(2 ** 63),
    -(2 ** 63) - 2048,
    1e21,
    -1e21,
  ],
  ...[{ __entity: { type: "Principal", id: "a" } }, { __extn: { fn: "decimal", arg: "1.0" } }, new Array(1)],
];
const full = ask(
  "protect",
  {
    workload: { application: "a", environment: "b", component: "c" },
    resource: { kind: "a", id: "b", mime_type: "c" },
    purpose: "a",
    labels: ["a"],
    attributes: { a: "b" },
    artifact_profile: "tdf",
    content_size_bytes: 1,
    key_reference: "a",
  },
  { attributes: { clearance: 1, constructor: "a", on_call: true, roles: ["a"] } },
);
const withRegistered: PolicyQuery = {
  ...full,
  registered: {
    labels: ["a"],
    labels_ever: ["a"],
    attributes: { a: "b" },
    resource: { kind: "a", id: "b" },
    artifact_profile: "tdf",
    key_reference: "a",
    application: "a",
    principal: "a",
    citation_matched: true,
    registered_at: 1,
  },
};

/** The question with the member at the path set to the value, or left out. */
function withMember([name, ...rest]: readonly string[], value: unknown, within: object): object {
  const { [name as string]: old, ...others } = within as Record<string, unknown>;
  if (rest.length > 0) return { ...others, [name as string]: withMember(rest, value, old as object) };
  return value === undefined ? others : { ...others, [name as string]: value };
}

const paths = [
  ...["tenantId", "principalId", "subject", "scopes", "authSource"].map((name) => ["caller", name]),
  ...Object.keys(declaredAttributes).map((name) => ["caller", "attributes", name]),
  ...["application", "environment", "component"].map((name) => ["claimed", "workload", name]),
  ...["kind", "id", "mime_type"].map((name) => ["claimed", "resource", name]),
  ...["purpose", "labels", "artifact_profile", "content_digest_present"].map((name) => ["claimed", name]),
  ...["content_size_bytes", "key_reference"].map((name) => ["claimed", name]),
  ...["a", "b", "__entity", "__proto__", "\ud800"].map((name) => ["claimed", "attributes", name]),
  ...["labels", "labels_ever", "artifact_profile", "key_reference"].map((name) => ["registered", name]),
  ...["application", "principal", "citation_matched", "registered_at"].map((name) => ["registered", name]),
  ...["kind", "id"].map((name) => ["registered", "resource", name]),
  ...["a", "__entity", "\ud800"].map((name) => ["registered", "attributes", name]),
];

test.each(paths.map((path) => [path]))("what the schema refuses at %j is not told, and all else is", (path) => {
  const verdicts = strange.map((value) => {
    const query = withMember(path, value, withRegistered) as PolicyQuery;
    const accepted = validated(query) !== undefined;
    expect(hasSchemaTypes(query, catalogue), `${String(value)} ${JSON.stringify(value)}`).toBe(accepted);
    return accepted;
  });
  expect(new Set(verdicts).size, "both happen").toBe(2);
});

test.each(["claimed", "registered"])("%s attributes that are no map are not told", (at) => {
  for (const attributes of [null, [], ["a"], "a", 1]) {
    const query = withMember([at, "attributes"], attributes, withRegistered) as PolicyQuery;
    expect(hasSchemaTypes(query, catalogue)).toBe(false);
  }
});

test("what was registered is told as a record, or not at all", () => {
  for (const registered of [null, [], "a", 0, false, {}])
    expect(hasSchemaTypes({ ...full, registered } as unknown as PolicyQuery, catalogue)).toBe(false);
  expect(hasSchemaTypes(full, catalogue)).toBe(true);
  expect(hasSchemaTypes(withRegistered, catalogue)).toBe(true);
});
