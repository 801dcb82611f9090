import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import canonicalize from "canonicalize";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { TenantId } from "../../../src/base/ids.ts";
import { utf8Text } from "../../../src/base/text-forms.ts";
import { checkBundle } from "../../../src/policy/check/check.ts";
import { compileInTurns, compilePolicyBundle } from "../../../src/policy/engine/engine.ts";
import { type PolicyBundle, parseBundleContent } from "../../../src/policy/load/bundle.ts";
import { engineVersion } from "../../../src/policy/model/schema.ts";
import { ask, bundleContent, engineOf, type Files, openFiles, permitAll, queries } from "./harness.ts";

/** A revision as the version before "rules 2" kept it. */
const earlierContent = readFileSync(join(import.meta.dirname, "../../fixtures/policy/bundle-rules-1.txt"), "utf8");

async function revisionOf(files: Files, settings = {}): Promise<string> {
  return (await engineOf(files, settings)).revision;
}

test("the revision is the hash of the content, and the same for the same directory", async () => {
  const engine = await engineOf(openFiles);
  expect(engine.revision).toBe(`sha256:${createHash("sha256").update(utf8Text(engine.content)).digest("hex")}`);
  expect(await revisionOf(Object.fromEntries(Object.entries(openFiles).reverse()))).toBe(engine.revision);
  expect(engine.decide(ask("protect")).policyRevision).toBe(engine.revision);
  expect(JSON.parse(utf8Text(engine.content))).toMatchObject({
    engine: engineVersion,
    schema: expect.stringContaining("entity Principal"),
  });
});

test("the content is the canonical JSON of the bundle, whatever its sets and files are called", () => {
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

test("expected decisions and what is harmless are not in it", async () => {
  const more = {
    "tests/a.yaml": "[]",
    "default/README.md": "x",
    "default/.b.cedar": "x",
  };
  expect(await revisionOf({ ...openFiles, ...more })).toBe(await revisionOf(openFiles));
});

test("the engine made from kept content decides alike; other content is refused", async () => {
  const forbid = '@id("b") forbid (principal, action, resource) when { context.claimed.labels.contains("a") };';
  const engine = await engineOf({ ...openFiles, "default/b.cedar": forbid });
  const bundle = parseBundleContent(utf8Text(engine.content), engine.revision) as PolicyBundle;
  const rebuilt = compilePolicyBundle(bundle);
  if (rebuilt.problems) throw new Error("does not compile");
  expect(rebuilt.engine.revision).toBe(engine.revision);
  fc.assert(
    fc.property(queries, (query) => {
      expect(rebuilt.engine.decide(query)).toEqual(engine.decide(query));
    }),
  );
  expect(parseBundleContent(`${utf8Text(engine.content)} `, engine.revision)).toBeUndefined();
});

test("a revision that an earlier version kept still decides as it did", () => {
  const revision = "sha256:49f1d179e6a02196be4c48b8ee28843506c498fb8565b39146f0f3c652d4bce3";
  const bundle = parseBundleContent(earlierContent, revision) as PolicyBundle;
  const { engine } = compilePolicyBundle(bundle);
  if (engine === undefined) throw new Error("does not compile");
  expect(engine.revision).toBe(revision);
  expect(bundle.engine).not.toBe(engineVersion);
  const europe = { attributes: { region: "eu" } };
  const reader = { tenantId: "tenant-b" as TenantId, scopes: ["read"] };
  const decisions = [
    engine.decide(ask("protect", europe)),
    engine.decide(ask("protect", { ...europe, workload: { application: "a", environment: "eu" } })),
    engine.decide(ask("access", {}, { subject: "contractor-7" })),
    engine.decide(ask("access", { labels: ["open"] }, reader)),
    engine.decide(ask("access", { labels: ["open"] }, { ...reader, scopes: [] })),
    engine.decide(ask("access", {}, reader)),
  ];
  expect(decisions.map(({ reasons }) => reasons)).toEqual([
    ["tenant/eu"],
    ["platform/all", "tenant/all"],
    ["platform/no-contractors"],
    ["platform/all", "tenant/readers"],
    ["platform/required-scope-missing"],
    [],
  ]);
  expect(decisions.map(({ allow }) => allow)).toEqual([false, true, false, true, false, false]);
  expect(decisions[0]?.guidance.required_actions).toEqual(["stay-in-eu"]);
});

test("a bundle compiled in turns decides alike, and leaves the event loop a turn after every set", async () => {
  const tenants = Array.from({ length: 5 }, (_, index) => `tenant-${index}`);
  const files = {
    "manifest.yaml": `platform: platform\ntenants: { ${tenants.map((name) => `${name}: ${name}`).join(", ")} }\n`,
    "platform/all.cedar": permitAll,
    ...Object.fromEntries(
      tenants.map((name) => [`${name}/a.cedar`, permitAll.replace("permit", `@warning("${name}") permit`)]),
    ),
  };
  const atOnce = await engineOf(files);
  const bundle = parseBundleContent(utf8Text(atOnce.content), atOnce.revision) as PolicyBundle;
  let turns = 0;
  const count = (): void => {
    turns++;
    turn = setImmediate(count);
  };
  let turn = setImmediate(count);
  const { engine } = await compileInTurns(bundle, checkBundle(bundle));
  clearImmediate(turn);
  expect(turns).toBeGreaterThanOrEqual(tenants.length);
  for (const tenantId of tenants as TenantId[]) {
    const query = ask("protect", {}, { tenantId });
    expect(engine?.decide(query)).toEqual(atOnce.decide(query));
    expect(engine?.decide(query).guidance.warnings).toEqual([tenantId]);
  }
});

test("a bundle with problems does not compile", async () => {
  const engine = await engineOf(openFiles);
  const bundle = parseBundleContent(utf8Text(engine.content), engine.revision) as PolicyBundle;
  const broken = { ...bundle, sets: { ...bundle.sets, default: { "a.cedar": "permit" } } };
  expect(compilePolicyBundle(broken).problems).toHaveLength(1);
  expect(compilePolicyBundle({ ...bundle, schema: "entity" }).problems).toHaveLength(1);
});

test("a tenant without a set is denied, and is not another by case or by a name of Object's", async () => {
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

test("engines do not disturb each other, and a released one denies", async () => {
  const [open, closed] = [
    await engineOf(openFiles),
    await engineOf({ ...openFiles, "default/b.cedar": '@id("b") forbid (principal, action, resource);' }),
  ];
  expect([open.decide(ask("protect")).allow, closed.decide(ask("protect")).allow]).toEqual([true, false]);
  closed.release();
  closed.release();
  const next = await engineOf(openFiles); // takes over the names of the released one
  expect(next.decide(ask("protect")).allow).toBe(true);
  expect(closed.decide(ask("protect"))).toMatchObject({
    allow: false,
    reasons: ["platform/evaluation-error", "tenant/evaluation-error"],
  });
});
