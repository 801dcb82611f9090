import { expect, test } from "vitest";
import { createRefetchBudget } from "../../../src/auth/tokens/refetch-budget.ts";

test("a budget gives out its permits, and is full again after the period", () => {
  let nowMs = 1_000_000_000;
  const budget = createRefetchBudget(2, 30_000, { now: () => nowMs });
  for (let period = 0; period < 5; period++) {
    expect([budget.take(), budget.take(), budget.take()]).toEqual([true, true, false]);
    expect(budget.refillInMs()).toBe(30_000);
    nowMs += 30_000;
  }
});
