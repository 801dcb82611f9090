import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createFairSemaphore, createSemaphore } from "../../../src/base/fair-queue.ts";

const patient = new AbortController().signal;

test("a caller that leaves gives up its place, and takes no slot", async () => {
  const slots = createSemaphore(1, 1);
  const begun: string[] = [];
  const first = Promise.withResolvers<void>();
  const run = (name: string, signal = patient, work = async () => {}) =>
    slots.run(() => {
      begun.push(name);
      return work();
    }, signal);
  const running = run("first", patient, () => first.promise);
  const leaving = new AbortController();
  const gone = run("gone", leaving.signal);
  await expect(run("one too many")).rejects.toMatchObject({ reason: "rate_limited" });
  leaving.abort(new Error("went away"));
  await expect(gone).rejects.toThrow("went away");
  const next = run("next");
  await expect(run("gone before", AbortSignal.abort(new Error("was away")))).rejects.toThrow("was away");
  first.resolve();
  await Promise.all([running, next]);
  expect(begun).toEqual(["first", "next"]);
});

describe("fair slots", () => {
  test("waiting calls take turns by party, with a bound for each and for all", async () => {
    const slots = createFairSemaphore({ maximum: 1, maximumWaitingEach: 3, maximumWaiting: 5 });
    const begun: string[] = [];
    const first = Promise.withResolvers<void>();
    const work = (name: string) => async () => {
      begun.push(name);
      if (name === "first") await first.promise;
    };
    const run = (name: string, party: string) => slots.run(party, work(name), patient);
    const all = [run("first", "a"), run("a1", "a"), run("a2", "a"), run("a3", "a"), run("b1", "b"), run("c1", "c")];
    await expect(run("a4", "a")).rejects.toMatchObject({ reason: "rate_limited", details: { retryAfterSeconds: 1 } });
    await expect(run("d1", "d")).rejects.toMatchObject({ reason: "overloaded", details: { retryAfterSeconds: 1 } });
    first.resolve();
    await Promise.all(all);
    expect(begun).toEqual(["first", "a1", "b1", "c1", "a2", "a3"]);
  });

  test("whatever calls arrive, leave and fail, no more run than allowed, and all end", async () => {
    const step = fc.record({
      party: fc.constantFrom("a", "b", "c"),
      leaves: fc.boolean(),
      fails: fc.boolean(),
      ticks: fc.nat(4),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), fc.integer({ min: 1, max: 3 }), async (steps, maximum) => {
        const slots = createFairSemaphore({ maximum, maximumWaitingEach: 4, maximumWaiting: 8 });
        let [running, most] = [0, 0];
        const ends = steps.map(async ({ party, leaves, fails, ticks }) => {
          const leaving = new AbortController();
          const ended = slots.run(
            party,
            async () => {
              running += 1;
              most = Math.max(most, running);
              for (let i = 0; i < ticks; i++) await Promise.resolve();
              running -= 1;
              if (fails) throw new Error("failed");
            },
            leaving.signal,
          );
          if (leaves) leaving.abort(new Error("left"));
          await ended.catch(() => {});
        });
        await Promise.all(ends);
        expect(running).toBe(0);
        expect(most).toBeLessThanOrEqual(maximum);
        // Every permit is released.
        await Promise.all(Array.from({ length: maximum }, () => slots.run("z", async () => {}, patient)));
      }),
    );
  });
});
