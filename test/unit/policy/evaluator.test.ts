import { expect, test } from "vitest";
import { checkBundle } from "../../../src/policy/check/check.ts";
import { caseOf, disagreementOn, evaluator, noCounts } from "../../harness/policy-differential.ts";
import { ask, bundleOf, engineOf, forbid, openFiles } from "./harness.ts";

test("random policies answer random requests as Cedar does, errors included", () => {
  const counts = noCounts();
  for (let seed = 1; seed <= 12; seed++) expect(disagreementOn(caseOf(seed), evaluator, counts)).toBeUndefined();
  // Each outcome came up often, so that agreement says something.
  expect(counts.applied).toBeGreaterThan(counts.pairs / 20);
  expect(counts.failed).toBeGreaterThan(counts.pairs / 20);
  expect(counts.leftToCedar).toBeGreaterThan(0);
});

test("values that share a number in the index are distinguished", async () => {
  // FNV-1a of both texts is the same in 32 bits.
  const values = ["costarring", "liquid"];
  const rules = values.map((value) =>
    forbid(value, `context.claimed has purpose && context.claimed.purpose == "${value}"`),
  );
  const files = { ...openFiles, "default/own.cedar": rules.join("\n") };
  // Or Cedar alone would answer below.
  expect(checkBundle(await bundleOf(files)).disagreements).toEqual(new Map());
  const engine = await engineOf(files);
  for (const purpose of values) {
    expect(engine.decide(ask("protect", { purpose }))).toMatchObject({ allow: false, reasons: [`tenant/${purpose}`] });
  }
  expect(engine.decide(ask("protect", { purpose: "other" })).allow).toBe(true);
});
