import { expect, test } from "vitest";
import { caseOf, disagreementOn, evaluator, noCounts } from "../../harness/policy-differential.ts";

test("policies at random do with requests at random what Cedar makes of them, errors included", () => {
  const counts = noCounts();
  for (let seed = 1; seed <= 12; seed++) expect(disagreementOn(caseOf(seed), evaluator, counts)).toBeUndefined();
  // Each outcome came up often, so that agreement says something.
  expect(counts.applied).toBeGreaterThan(counts.pairs / 20);
  expect(counts.failed).toBeGreaterThan(counts.pairs / 20);
  expect(counts.leftToCedar).toBeGreaterThan(0);
});
