import { afterEach, expect, test } from "vitest";
import type { TenantId } from "../../../src/base/ids.ts";
import type { CompiledEngine } from "../../../src/policy/engine/engine.ts";
import { ask, engineOf, openFiles, permitAll } from "./harness.ts";
import { overflowing } from "./pool.ts";

let engine: CompiledEngine | undefined;
afterEach(() => engine?.release());

async function explain(files: Record<string, string>, query = ask("protect", { labels: ["b", "a"] })) {
  engine = await engineOf({ ...openFiles, ...files });
  const explanation = engine.explain(query);
  expect(explanation.decision).toEqual(engine.decide(query));
  return explanation;
}

test("each layer shows what decided, where it stands, what it says and what it read", async () => {
  const policies = `${permitAll}
    @id("labelled") @description("Labelled data") @handling_mode("careful")
    permit (principal, action == Action::"protect", resource)
    when { context.claimed.labels.contains("a") && !(context.claimed has purpose) };
    @id("other-action") permit (principal, action == Action::"wrap", resource);
    @id("elsewhere") forbid (principal, action, resource) when { context.claimed.attributes.hasTag("region") };`;
  const { decision, layers } = await explain({ "default/all.cedar": policies });
  expect(decision.allow).toBe(true);
  expect(layers.map(({ layer, set, outcome }) => [layer, set, outcome])).toEqual([
    ["platform", "platform", "allow"],
    ["tenant", "default", "allow"],
  ]);
  expect(layers[1]?.policies.map(({ id, decided }) => [id, decided])).toEqual([
    ["all", true],
    ["labelled", true],
    ["elsewhere", false],
  ]);
  expect(layers[1]?.policies[1]).toMatchObject({
    file: "default/all.cedar",
    line: 2,
    effect: "permit",
    description: "Labelled data",
    guidance: { scalars: { handling_mode: "careful" }, lists: {} },
    inputs: { labels: ["a", "b"], purpose: undefined },
  });
});

test("a layer says what it says even where the other denies; a forbid decides alone", async () => {
  const { decision, layers } = await explain({
    "platform/no.cedar": '@id("no") forbid (principal, action, resource);',
  });
  expect(decision.reasons).toEqual(["platform/no"]);
  expect(layers.map(({ outcome }) => outcome)).toEqual(["deny", "allow"]);
  expect(layers[0]?.policies.map(({ id, decided }) => [id, decided])).toEqual([
    ["no", true],
    ["all", false],
  ]);
});

test("an error is shown with the policy that failed", async () => {
  const failing = `@id("sum") forbid (principal, action, resource) when { ${overflowing} };`;
  const { decision, layers } = await explain(
    { "default/sum.cedar": failing },
    ask("protect", { content_size_bytes: 1 }),
  );
  expect(decision.allow).toBe(false);
  expect(layers[1]).toMatchObject({ outcome: "error", policies: [{ id: "sum", decided: true }, { id: "all" }] });
});

test("a tenant without a set has no layers", async () => {
  const query = ask("protect", {}, { tenantId: "tenant-x" as TenantId });
  const { decision, layers } = await explain(
    { "manifest.yaml": "platform: platform\ntenants: { tenant-a: default }" },
    query,
  );
  expect([decision.reasons, layers]).toEqual([["platform/no-policy-set"], []]);
});
