import { expect, test } from "vitest";
import { checkBundle, loadPolicyDirectory } from "../../../src/policy/check/check.ts";
import type { PolicyBundle } from "../../../src/policy/load/bundle.ts";
import { caseOf, disagreementOn, evaluator, noCounts } from "../../harness/policy-differential.ts";
import { ask, engineOf, memoryFileSystem, openFiles } from "./harness.ts";

test("policies at random do with requests at random what Cedar makes of them, errors included", () => {
  const counts = noCounts();
  for (let seed = 1; seed <= 12; seed++) expect(disagreementOn(caseOf(seed), evaluator, counts)).toBeUndefined();
  // Each outcome came up often, so that agreement says something.
  expect(counts.applied).toBeGreaterThan(counts.pairs / 20);
  expect(counts.failed).toBeGreaterThan(counts.pairs / 20);
  expect(counts.leftToCedar).toBeGreaterThan(0);
});

const rule = (effect: string, id: string, condition: string) =>
  `@id("${id}") ${effect} (principal, action, resource) when { ${condition} };`;

test.each([
  ["a permit", "permit", { purpose: "audit" }, true, ["platform/all", "tenant/all", "tenant/own"]],
  ["a permit that does not apply", "permit", { purpose: "other" }, true, ["platform/all", "tenant/all"]],
  ["a prohibition", "forbid", { purpose: "audit" }, false, ["tenant/own"]],
  ["a policy that fails", "forbid", { purpose: "fail" }, false, ["tenant/evaluation-error", "tenant/own"]],
] as const)(
  "what Cedar alone can evaluate stands beside compiled policies: %s",
  async (_name, effect, claimed, allow, reasons) => {
    const condition =
      'context.claimed has purpose && (if context.claimed.purpose == "fail" then decimal("x") else decimal("1.5")).lessThan(decimal("2.5")) && context.claimed.purpose == "audit"';
    // Cedar refuses such text in a policy, so that it comes about in another way.
    const failing = condition.replace('decimal("x")', 'decimal("1.0")').replace('== "audit"', '!= "other"');
    const overflow = `${failing} && (if context.claimed.purpose == "fail" then 9223372036854775807 + 1 else 1) == 1`;
    const engine = await engineOf({ ...openFiles, "default/own.cedar": rule(effect, "own", overflow) });
    expect(engine.decide(ask("protect", claimed))).toMatchObject({ allow, reasons });
    engine.release();
  },
);

test("an engine that was asked before says what one says that was not", async () => {
  const files = {
    ...openFiles,
    "default/own.cedar": [
      '@id("purposeful") @obligation("mark; why = claimed.purpose")',
      "permit (principal, action, resource) when { context.claimed has purpose };",
      rule(
        "forbid",
        "failing",
        "context.claimed has content_size_bytes && 9223372036854775807 + context.claimed.content_size_bytes > 0",
      ),
    ].join("\n"),
  };
  const asked = await engineOf(files, {}, { cachedDecisions: 0 });
  for (const claimed of [
    {},
    { purpose: "audit" },
    { purpose: "sales" },
    { content_size_bytes: 1 },
    { purpose: "audit" },
  ]) {
    const fresh = await engineOf(files, {}, { cachedDecisions: 0 });
    const question = { ...ask("protect", claimed), understoodObligations: ["mark"] };
    expect(asked.decide(question)).toEqual(fresh.decide(question));
    fresh.release();
  }
  asked.release();
});

test("values that the index has one number for are told apart", async () => {
  // FNV-1a of both texts is the same in 32 bits.
  const values = ["costarring", "liquid"];
  const rules = values.map((value) =>
    rule("forbid", value, `context.claimed has purpose && context.claimed.purpose == "${value}"`),
  );
  const files = { ...openFiles, "default/own.cedar": rules.join("\n") };
  const { bundle } = await loadPolicyDirectory("/policies", memoryFileSystem(files));
  // Or Cedar alone would answer below.
  expect(checkBundle(bundle as PolicyBundle).disagreements).toEqual(new Map());
  const engine = await engineOf(files);
  for (const purpose of values) {
    expect(engine.decide(ask("protect", { purpose }))).toMatchObject({ allow: false, reasons: [`tenant/${purpose}`] });
  }
  expect(engine.decide(ask("protect", { purpose: "other" })).allow).toBe(true);
  engine.release();
});
