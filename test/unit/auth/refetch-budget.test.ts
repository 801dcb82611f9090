import { expect, test } from "vitest";
import { createRefetchBudget } from "../../../src/auth/tokens/refetch-budget.ts";
import { type SumsOf, sharedSums, sumTable } from "../../../src/base/sums.ts";

test("what several threads take together is one budget, filled up again with each period of the clock", () => {
  let nowMs = 1_000_000_000;
  const clock = { now: () => nowMs };
  const table = sumTable(2, new Uint8Array(8));
  const threads = [0, 1].map((thread) => sharedSums(table, thread)) as [SumsOf, SumsOf];
  const budgets = threads.map((sumsOf) => createRefetchBudget(2, 30_000, clock, sumsOf("refetches")));
  for (let period = 0; period < 5; period++) {
    const taken = [0, 1, 0, 1, 1, 0].filter((thread) => budgets[thread]?.take() === true);
    expect(taken).toEqual([0, 1]);
    for (const budget of budgets) expect(budget.refillInMs()).toBeLessThanOrEqual(30_000);
    nowMs += 30_000;
  }
  // What was taken in periods that are over is not kept.
  for (const budget of budgets) budget.take();
  const [first] = threads;
  for (let at = 1_000_000_000; at < nowMs; at += 30_000)
    expect(first("refetches").of(String(Math.floor(at / 30_000)))).toBe(0);
});
