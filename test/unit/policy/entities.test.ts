import { checkParseEntities, type Entities } from "@cedar-policy/cedar-wasm/nodejs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { joinEntities } from "../../../src/policy/check/entities.ts";
import { entitiesMember, entity, entitySchema, type Json, knowingFiles, labels, others, uid } from "./entities.ts";
import { declaringFiles, type Files, problemsOf } from "./harness.ts";

const withText = (labels: string | Uint8Array): Files => ({ ...knowingFiles, "labels.json": labels });
const withLabels = (list: unknown): Files => withText(JSON.stringify(list));
const more = (...added: readonly Json[]) => withLabels([...labels, ...added]);
const withSchema = (schema: string): Files => ({ ...knowingFiles, "org.cedarschema": schema });
const withMember = (member: string): Files => ({
  ...knowingFiles,
  "manifest.yaml": `${declaringFiles["manifest.yaml"]}${member}`,
});
const withPolicy = (condition: string): Files => ({
  ...knowingFiles,
  "default/rule.cedar": `@id("rule")\nforbid (principal, action, resource)\nwhen { ${condition} };`,
});

/** What entities of a type must have. */
const needed: Readonly<Record<string, Json>> = {
  Key: { hsm: true },
  Application: {
    tier: uid("Tier", "tin"),
    owner: uid("Group", "security"),
    contact: { mail: "m" },
    principals: [{ type: "Principal", id: "tenant-a/a" }],
  },
};

describe("entities are refused, with file and remedy:", () => {
  const label = (attrs: Json, parents?: readonly Json[], rest?: Json) =>
    more(entity("Label", "x", attrs, parents, rest));
  const application = (attrs: Json) => more(entity("Application", "x", { ...needed.Application, ...attrs }));
  const refused: readonly (readonly [Files, RegExp])[] = [
    [withText("[{]"), /^labels\.json: is not JSON: .*\(a list of entities/],
    [withLabels({}), /^labels\.json: is not a list \(a list of entities/],
    [withText(new Uint8Array([0x5b, 0xff, 0x5d])), /^labels\.json: is not UTF-8/],
    [withMember(entitiesMember.replace("others", "more")), /^more\.json: cannot be read \(ENOENT\)/],
    [withText(`[${" ".repeat(32 * 1024 * 1024)}]`), /^labels\.json: is too large: .* 32 MiB/],
    [withLabels([1]), /^labels\.json:1: must be an entity/],
    [withLabels([{ attrs: {}, parents: [] }]), /^labels\.json:1: uid must be an entity/],
    [withLabels([{ uid: uid("Label", "x"), parents: [] }]), /Org::Label::"x": attrs must be an object/],
    [withLabels([{ uid: uid("Label", "x"), attrs: {} }]), /Org::Label::"x": parents must be a list/],
    [label({}, [], { atrs: {} }), /Org::Label::"x" has atrs; known: uid, attrs, parents, tags/],
    [
      more(entity("Lable", "x")),
      /Org::Lable::"x" is of a type that the schema does not have; Org has Org::Application, Org::Group/,
    ],
    [
      more({ uid: { type: "Principal", id: "tenant-a/a" }, attrs: {}, parents: [] }),
      /Principal::"tenant-a\/a" is of a type/,
    ],
    [more(entity("Tier", "gold")), /is listed by the schema/],
    [label({ rank: 2 ** 53 }), /rank must be a whole number within ±\(2\^53 − 1\)/],
    [label({ roles: "doctor" }), /roles must be a list/],
    [label({ area: "\ud800" }), /half of a surrogate pair/],
    [withText('[{"uid":{"type":"Org::Label","id":"x"},"attrs":{"__proto__":1},"parents":[]}]'), /has __proto__, which/],
    [more(entity("Key", "x")), /Org::Key::"x" has no hsm, which is required/],
    [label({}, [uid("Label", "y")]), /^labels\.json:1: Org::Label::"x" refers to Org::Label::"y", which no file has/],
    [
      more(entity("Person", "tenant-a/x", { boss: uid("Person", "tenant-a/y") })),
      /refers to Org::Person::"tenant-a\/y", which no file has/,
    ],
    [application({ tier: { __entity: uid("Tier", "gold"), more: 1 } }), /tier must be an entity/],
    [application({ tier: uid("Tier", "iron") }), /refers to Org::Tier::"iron"/],
    [application({ principals: [{ type: "Principal", id: "a" }] }), /refers to Principal::"a"/],
    [more(entity("Person", "alice")), /no principal has the id "alice" \(write "<tenant>\/<principal>"\)/],
    [more(labels[0] as Json), /^labels\.json:1: Org::Label::"classified" is defined already, in labels\.json/],
    [more(others[0] as Json), /Org::Group::"security" is defined already, in labels\.json/],
    [label({}, [uid("Label", "x")]), /Org::Label::"x" is its own ancestor/],
    [
      more(entity("Label", "x", {}, [uid("Label", "y")]), entity("Label", "y", {}, [uid("Label", "x")])),
      /is its own ancestor/,
    ],
    [
      more(
        ...Array.from({ length: 300 }, (_, at) =>
          entity("Label", `l${at}`, {}, at === 0 ? [] : [uid("Label", `l${at - 1}`)]),
        ),
      ),
      /has more than 256 ancestors/,
    ],
    [
      { ...knowingFiles, "others.json": JSON.stringify(others).replace("2026-01-31", "2026-02-31") },
      /^others\.json:1: Org::Application::"payroll": .*datetime/,
    ],
    [
      withText('[{"uid":{"type":"Org::Label","id":"x"},"attrs":{"rank":1,"rank":2},"parents":[]}]'),
      /^labels\.json: an object has two members with the same name/,
    ],
    [withSchema("namespace Org {\n  entity Label = ;\n}"), /^org\.cedarschema:2: unexpected token/],
    [withSchema("entity Label;"), /^org\.cedarschema: must declare one namespace/],
    [withSchema(`${entitySchema}namespace More { entity A; }`), /must declare one namespace/],
    [withSchema(entitySchema.replace(/\}\n$/, "action open;\n}")), /^org\.cedarschema: declares actions/],
    [
      withSchema(entitySchema.replace('"hsm": Bool', '"hsm": Bol')),
      /^org\.cedarschema:\d+: failed to resolve type: Bol/,
    ],
    [withSchema(entitySchema.replace('"hsm": Bool', '"hsm": Claimed')), /failed to resolve type: Claimed/],
    [
      withMember(entitiesMember.replace("Org::Label", "Org::Lable")),
      /^org\.cedarschema: entities\.labels is Org::Lable, which is not an entity type of Org \(name one of/,
    ],
    [withMember(entitiesMember.replace("Org::Key", "Org::Tier")), /entities\.key_reference is Org::Tier/],
    [withMember(entitiesMember.replace("Org::Label", "Label")), /^manifest\.yaml:\d+: entities\.labels must be a type/],
    [withMember(entitiesMember.replace("labels.json", "../labels.json")), /entities\.files must list \*\.json files/],
    [withMember(entitiesMember.replace("others.json", "labels.json")), /entities\.files must list/],
    [withMember(entitiesMember.replace("org.c", "schema.c")), /entities\.schema must name/],
    [withMember(`${entitiesMember}  label: Org::Label\n`), /entities has an unknown member label/],
    [
      { ...knowingFiles, "manifest.yaml": `${knowingFiles["manifest.yaml"]}`.replace("on_call:", "entity:") },
      /principal\.entity is both/,
    ],
    [
      withPolicy('context.claimed.label_set in Org::Label::"clasified"'),
      /^default\/rule\.cedar:1: rule: no file has Org::Label::"clasified"/,
    ],
    [withPolicy("context.claimed.label_set.max_rank > 1"), /optional attribute `max_rank`/],
    [{ ...knowingFiles, "more.json": "[]" }, /^more\.json: is not read/],
  ];
  test.each(refused.map(([files, expected]) => ({ files, expected })))("$expected", async ({ files, expected }) => {
    expect((await problemsOf(files)).join("\n")).toMatch(expected);
  });
});

test("an entity with very many parents is refused within seconds", () => {
  const parents = Array.from({ length: 40_000 }, (_, at) => uid("Group", `g${at}`));
  const list = [entity("Group", "x", {}, parents), ...parents.map(({ id }) => entity("Group", id))];
  const files = { "groups.json": JSON.stringify(list) };
  const { problems } = joinEntities({ schemaFile: "org.cedarschema", schema: entitySchema, files, references: {} });
  expect(problems).toMatchObject([{ message: 'Org::Group::"x" has more than 256 ancestors' }]);
}, 10_000);

test("problems have their lines, and are listed up to a bound", async () => {
  const bad = Array.from({ length: 50 }, (_, at) => entity("Label", `b${at}`, { rank: "x" }));
  const problems = await problemsOf({
    ...knowingFiles,
    "labels.json": JSON.stringify([...labels, ...bad], undefined, 1),
  });
  expect(problems).toHaveLength(21);
  const lines = JSON.stringify(labels, undefined, 1).split("\n").length;
  expect(problems).toContainEqual(expect.stringMatching(new RegExp(`^labels\\.json:${lines}: Org::Label::"b0"`)));
  expect(problems).toContainEqual("labels.json: and 30 more entities are wrong");
});

/** Values of every type, and wrong ones. */
const value: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(1, -1, 0, 1.5, "text", "", true, null, [], ["a"], ["a", 1], [["a"]], {}, { a: 1 }),
  fc.constantFrom<unknown>(
    uid("Label", "public"),
    { __entity: uid("Label", "public") },
    { __entity: { type: "Org::Label" } },
  ),
  fc.constantFrom<unknown>(
    uid("Group", "security"),
    { mail: "a" },
    { mail: "a", desk: uid("Group", "security") },
    { mail: 1 },
  ),
  fc.constantFrom<unknown>(
    { fn: "datetime", arg: "2026-01-31" },
    { __extn: { fn: "datetime", arg: "x" } },
    "2026-01-31",
  ),
);
const members: Readonly<Record<string, readonly string[]>> = {
  Label: ["rank", "roles", "area"],
  Group: ["lead"],
  Application: ["tier", "owner", "contact", "principals", "since"],
  Key: ["application", "hsm"],
  Person: ["boss"],
  Nothing: ["hsm"],
};
const drawn = fc.constantFrom(...Object.keys(members)).chain((type) =>
  fc
    .tuple(
      fc.dictionary(fc.constantFrom(...(members[type] as string[]), "hsm"), value, {
        maxKeys: 2,
        noNullPrototype: true,
      }),
      fc.constantFrom<readonly Json[]>(
        [],
        [uid("Group", "security")],
        [uid("Label", "public")],
        [{ type: "Action", id: "x" }],
      ),
      fc.option(fc.dictionary(fc.constantFrom("a", "__proto__"), value, { noNullPrototype: true }), {
        nil: undefined,
        freq: 1,
      }),
    )
    .map(([attrs, parents, tags]) =>
      entity(type, "tenant-a/drawn", { ...needed[type], ...attrs }, parents, tags === undefined ? {} : { tags }),
    ),
);

test("entities are accepted exactly if Cedar accepts them", () => {
  const schema = `${entitySchema}\nentity Principal;`;
  const files = { "org.json": JSON.stringify([...labels, ...others]) };
  let good = 0;
  fc.assert(
    fc.property(drawn, (it) => {
      const declared = {
        schemaFile: "s",
        schema: entitySchema,
        references: {},
        files: { ...files, "x.json": JSON.stringify([it]) },
      };
      const { problems } = joinEntities(declared);
      const cedar = checkParseEntities({ entities: [it] as unknown as Entities, schema });
      expect(problems.length === 0, JSON.stringify([it, problems, cedar])).toBe(cedar.type === "success");
      if (problems.length === 0) good++;
    }),
    // As many good ones as are asked for: a random search may draw fewer.
    { numRuns: 200, examples: Array.from({ length: 11 }, (_, rank) => [entity("Label", "tenant-a/drawn", { rank })]) },
  );
  expect(good).toBeGreaterThan(10);
});
