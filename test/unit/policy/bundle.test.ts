import { createHash } from "node:crypto";
import canonicalize from "canonicalize";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { TenantId } from "../../../src/base/ids.ts";
import { utf8Text } from "../../../src/base/text-forms.ts";
import { checkBundle } from "../../../src/policy/check/check.ts";
import { engineOf as compiled, compileInTurns } from "../../../src/policy/engine/engine.ts";
import { type PolicyBundle, parseBundleContent } from "../../../src/policy/load/bundle.ts";
import { engineVersion } from "../../../src/policy/model/schema.ts";
import { knowingFiles } from "./entities.ts";
import { ask, bundleContent, bundleOf, engineOf, type Files, openFiles, permitAll, queries } from "./harness.ts";

async function revisionOf(files: Files, settings = {}): Promise<string> {
  return (await engineOf(files, settings)).revision;
}

test("the revision is the hash of the content, and equal for equal directories", async () => {
  const engine = await engineOf(openFiles);
  expect(engine.revision).toBe(`sha256:${createHash("sha256").update(utf8Text(engine.content)).digest("hex")}`);
  expect(await revisionOf(Object.fromEntries(Object.entries(openFiles).reverse()))).toBe(engine.revision);
  expect(engine.decide(ask("protect")).policyRevision).toBe(engine.revision);
  expect(JSON.parse(utf8Text(engine.content))).toMatchObject({
    engine: engineVersion,
    schema: expect.stringContaining("entity Principal"),
  });
});

test("the content is the canonical JSON of the bundle, for any names of sets and files", () => {
  const texts = fc.dictionary(fc.string(), fc.string());
  const some = fc.record({
    engine: fc.string(),
    sets: fc.dictionary(fc.string(), texts),
    disclosable: fc.option(texts),
  });
  fc.assert(
    fc.property(some, ({ disclosable, ...rest }) => {
      const bundle = { ...rest, disclosable: disclosable ?? undefined } as unknown as PolicyBundle;
      expect(bundleContent(bundle)).toBe(canonicalize(bundle));
    }),
  );
});

test("everything that decides is in the revision", async () => {
  const revisions = await Promise.all([
    revisionOf(openFiles),
    revisionOf({ ...openFiles, "platform/all.cedar": `${permitAll} ` }),
    revisionOf({ ...openFiles, "default/all.cedar": `${permitAll} ` }),
    revisionOf({ ...openFiles, "default/b.cedar": "// nothing\n" }),
    revisionOf({ ...openFiles, "manifest.yaml": "platform: platform\ntenants: { a: default }" }),
    revisionOf({ ...openFiles, "manifest.yaml": `${openFiles["manifest.yaml"]}guidance: { handling_mode: other }` }),
    revisionOf({ ...openFiles, "manifest.yaml": `${openFiles["manifest.yaml"]}strictness: { handling_mode: [a, b] }` }),
    revisionOf(openFiles, { keyReferences: [] }),
    revisionOf(openFiles, { supportedProfiles: ["envelope"] }),
  ]);
  expect(new Set(revisions).size).toBe(revisions.length);
});

test("the engine of kept content decides the same; other content is refused", async () => {
  const isSecret = "context.claimed.label_set has max_rank && principal.clearance < context.claimed.label_set.max_rank";
  const forbid = `@id("b") forbid (principal, action, resource) when { ${isSecret} };`;
  const engine = await engineOf({ ...knowingFiles, "default/b.cedar": forbid });
  const bundle = parseBundleContent(utf8Text(engine.content), engine.revision) as PolicyBundle;
  const rebuilt = compiled(bundle);
  expect(rebuilt.revision).toBe(engine.revision);
  fc.assert(
    fc.property(queries, (query) => {
      expect(rebuilt.decide(query)).toEqual(engine.decide(query));
    }),
  );
  expect(parseBundleContent(`${utf8Text(engine.content)} `, engine.revision)).toBeUndefined();
});

test("a bundle compiled in turns decides the same, and frees the event loop after every set", async () => {
  const tenants = Array.from({ length: 5 }, (_, index) => `tenant-${index}`);
  const files = {
    "manifest.yaml": `platform: platform\ntenants: { ${tenants.map((name) => `${name}: ${name}`).join(", ")} }\n`,
    "platform/all.cedar": permitAll,
    ...Object.fromEntries(
      tenants.map((name) => [`${name}/a.cedar`, permitAll.replace("permit", `@warning("${name}") permit`)]),
    ),
  };
  const atOnce = await engineOf(files);
  const bundle = await bundleOf(files);
  let turns = 0;
  const count = (): void => {
    turns++;
    turn = setImmediate(count);
  };
  let turn = setImmediate(count);
  const engine = await compileInTurns(bundle, checkBundle(bundle));
  clearImmediate(turn);
  expect(turns).toBeGreaterThanOrEqual(tenants.length);
  for (const tenantId of tenants as TenantId[]) {
    const query = ask("protect", {}, { tenantId });
    expect(engine.decide(query)).toEqual(atOnce.decide(query));
    expect(engine.decide(query).guidance.warnings).toEqual([tenantId]);
  }
});

test("a bundle with problems does not compile", async () => {
  const bundle = await bundleOf(openFiles);
  const broken = { ...bundle, sets: { ...bundle.sets, default: { "a.cedar": "permit" } } };
  for (const bad of [broken, { ...bundle, schema: "entity" }]) {
    expect(checkBundle(bad).problems).toHaveLength(1);
    expect(() => compiled(bad)).toThrow(TypeError);
  }
});

test("a tenant without a set is denied, and no spelling or object member stands for another", async () => {
  const engine = await engineOf({
    ...openFiles,
    "manifest.yaml": "platform: platform\ntenants: { tenant-a: default }",
  });
  const decide = (tenant: string) => engine.decide(ask("protect", {}, { tenantId: tenant as never }));
  expect(decide("tenant-a").allow).toBe(true);
  for (const other of ["Tenant-A", "constructor", "default", "*"]) {
    expect(decide(other), other).toMatchObject({ allow: false, reasons: ["platform/no-policy-set"], inputs: [] });
  }
});
