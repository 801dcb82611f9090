/** Copies of the schema that stand beside policies, as this version and those before it published and wrote them. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { publishedSchema } from "../../../src/policy/engine/schema.ts";
import { ask, engineOf, type Files, problemsOf } from "./harness.ts";

const copyOf = (name: string) =>
  readFileSync(`${import.meta.dirname}/../../fixtures/policy/published-schemas/${name}.cedarschema`, "utf8");
/** In the order in which versions published them. */
const published = ["1", "2", "3"];

/** A directory with everything that policies may read and say today. */
const files: Files = {
  "manifest.yaml": `platform: platform
tenants: { "*": default }
disclosable: [attributes.owner]
caller_attributes:
  clearance: { type: whole_number, required: true }
  roles: { type: set_of_text }
entities:
  schema: org.cedarschema
  files: [org.json]
  labels: Org::Label
  application: Org::Application
  key_reference: Org::Key
  principal: Org::Person
`,
  "org.cedarschema": `namespace Org {
  entity Label in [Label] = { "rank": Long, "roles"?: Set<String> };
  entity Application, Key, Person;
}
`,
  "org.json": JSON.stringify([{ uid: { type: "Org::Label", id: "secret" }, attrs: { rank: 3 }, parents: [] }]),
  "platform/all.cedar": `@id("all") permit (principal, action, resource);
@id("subjects") permit (principal, action, resource)
when { context has on_behalf_of && context.on_behalf_of.id == "alice" };
`,
  "default/all.cedar": `@id("own") @alert("opened")
@obligation("tell-owner; owner = registered.attributes.owner")
permit (principal, action, resource)
when
{
  context has registered && context.registered.attributes.hasTag("owner") &&
  context.registered.labels_ever.contains("secret")
};

@id("clearance") forbid (principal, action, resource)
unless
{
  context.claimed.label_set has max_rank && principal.clearance >= context.claimed.label_set.max_rank ||
  principal has roles && principal.roles.contains("officer")
};
`,
};
const withCopy = (copy: string): Files => ({ ...files, "schema.cedarschema": copy });
const differs = expect.stringMatching(/^schema\.cedarschema: differs from every published schema/);

test("the newest is the one that this version publishes: a version that changes it leaves those before here", () => {
  expect(copyOf(published.at(-1) as string)).toBe(publishedSchema);
});

describe.each([...published, "2-declaring"])("%s", (name) => {
  const copy = copyOf(name);

  test.each([
    ["as it was published", copy],
    ["with Windows' line ends", copy.replaceAll("\n", "\r\n")],
  ])("is accepted %s beside everything of today, and decides nothing", async (_how, text) => {
    const [engine, without] = [await engineOf(withCopy(text)), await engineOf(files)];
    expect(engine.revision).toBe(without.revision);
    const query = ask("access", { labels: ["secret"] }, { attributes: { clearance: 3 } });
    expect(engine.decide(query)).toEqual(without.decide(query));
    expect(engine.readsRegistered(query)).toBe(true);
  });

  test("is refused where a word of it was changed", async () => {
    for (const changed of [`${copy}\n`, copy.replace('"purpose"?', '"purpose"'), copy.slice(1)]) {
      expect(await problemsOf(withCopy(changed))).toEqual([differs]);
    }
  });
});

test("what an earlier version wrote for another declaration is refused", async () => {
  for (const [declared, other] of [
    ["clearance: { type: whole_number, required: true }", "clearance: { type: whole_number }"],
    ["  roles: { type: set_of_text }\n", ""],
    ["  key_reference: Org::Key\n", ""],
  ] as const) {
    const manifest = String(files["manifest.yaml"]).replace(declared, other);
    const { "default/all.cedar": _, ...rest } = withCopy(copyOf("2-declaring"));
    const simple = {
      ...rest,
      "manifest.yaml": manifest,
      "default/all.cedar": '@id("a") permit (principal, action, resource);',
    };
    expect(await problemsOf(simple), other).toEqual([differs]);
  }
});

test("what this version writes is accepted, also where the operator's own schema has Windows' line ends", async () => {
  const windows = { ...files, "org.cedarschema": String(files["org.cedarschema"]).replaceAll("\n", "\r\n") };
  const { content } = await engineOf(windows);
  for (const copy of [JSON.parse(content).schema, copyOf("2-declaring")]) {
    expect(await problemsOf({ ...windows, "schema.cedarschema": copy })).toEqual([]);
  }
});
