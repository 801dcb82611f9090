import { expect, test } from "vitest";
import { singleFlight } from "../../../src/ops/listener.ts";

test("those who ask during a run share it, those who ask afterwards get a new one", async () => {
  const runs: PromiseWithResolvers<number>[] = [];
  const ask = singleFlight(() => {
    const run = Promise.withResolvers<number>();
    runs.push(run);
    return run.promise;
  });
  const answers = [ask(), ask(), ask()];
  runs[0]?.resolve(1);
  expect(await Promise.all(answers)).toEqual([1, 1, 1]);
  const next = ask();
  runs[1]?.resolve(2);
  expect(await next).toBe(2);
  expect(runs).toHaveLength(2);
});

test("a run that failed is over", async () => {
  let fails = true;
  const ask = singleFlight(async () => {
    if (fails) throw new Error("down");
  });
  await expect(ask()).rejects.toThrow("down");
  fails = false;
  await expect(ask()).resolves.toBeUndefined();
});
