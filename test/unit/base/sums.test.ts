import { Worker } from "node:worker_threads";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { forgetThread, localSums, type SumsOf, sharedSums, sumTable } from "../../../src/base/sums.ts";

const seed = new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]);

/** Two threads that take part, in turns; those of one thread are one alone. */
const implementations: readonly (readonly [string, () => readonly SumsOf[]])[] = [
  ["of this thread", () => [localSums].map((open) => onceEach(open))],
  ["of two threads", () => bothOf(sumTable(2, seed))],
];

function onceEach(open: () => ReturnType<SumsOf>): SumsOf {
  const kinds = new Map<string, ReturnType<SumsOf>>();
  return (kind) => {
    const sums = kinds.get(kind) ?? open();
    kinds.set(kind, sums);
    return sums;
  };
}

const bothOf = (table: ReturnType<typeof sumTable>) => [sharedSums(table, 0), sharedSums(table, 1)];

describe.each(implementations)("sums %s", (_name, open) => {
  const step = fc.record({
    by: fc.nat({ max: 1 }),
    kind: fc.constantFrom("bodies", "streams"),
    name: fc.constantFrom("all", "t-1", "t-2", "192.0.2.1", ""),
    amount: fc.integer({ min: 0, max: 2 ** 38 }),
    maximum: fc.integer({ min: 0, max: 2 ** 40 }),
    takesBack: fc.boolean(),
  });

  test("add where the maximum allows it, and nothing where it does not", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const threads = open();
        const model = new Map<string, number>();
        const added: { readonly by: number; readonly kind: string; readonly name: string; readonly amount: number }[] =
          [];
        for (const { by, kind, name, amount, maximum, takesBack } of steps) {
          const sumsOf = threads[by % threads.length] as SumsOf;
          const key = `${kind} ${name}`;
          const sum = model.get(key) ?? 0;
          const fits = sum + amount <= maximum;
          expect(sumsOf(kind).add(name, amount, maximum)).toBe(fits);
          if (fits) {
            model.set(key, sum + amount);
            added.push({ by, kind, name, amount });
          }
          const last = takesBack ? added.pop() : undefined;
          if (last !== undefined) {
            threads[last.by % threads.length]?.(last.kind).subtract(last.name, last.amount);
            model.set(`${last.kind} ${last.name}`, (model.get(`${last.kind} ${last.name}`) ?? 0) - last.amount);
          }
          for (const [each, expected] of model) {
            const [ofKind = "", ...rest] = each.split(" ");
            for (const thread of threads) expect(thread(ofKind).of(rest.join(" "))).toBe(expected);
          }
        }
      }),
      { numRuns: 200 },
    );
  });
});

test("what a thread had added is taken back when it is no more, and nothing else", () => {
  const table = sumTable(3, seed);
  const [first, second] = [0, 1].map((thread) => sharedSums(table, thread)("bodies"));
  for (let i = 0; i < 100; i++) {
    first?.add(`t-${i}`, 10, 100);
    second?.add(`t-${i}`, 5, 100);
  }
  forgetThread(table, 0);
  for (let i = 0; i < 100; i++) expect(second?.of(`t-${i}`)).toBe(5);
  expect(first?.add("t-1", 95, 100)).toBe(true);
});

test("with a thousand names counted the sum of another is hardly ever too large, and never too small", () => {
  const sums = sharedSums(sumTable(2, seed), 0)("addresses");
  for (let i = 0; i < 1_000; i++) sums.add(`10.0.${i >> 8}.${i & 255}`, 1, 1);
  const others = Array.from({ length: 1_000 }, (_, i) => sums.of(`10.9.${i >> 8}.${i & 255}`));
  expect(others.filter((sum) => sum > 0).length).toBeLessThan(10);
  for (let i = 0; i < 1_000; i++) expect(sums.of(`10.0.${i >> 8}.${i & 255}`)).toBeGreaterThanOrEqual(1);
});

test("threads that add at the same moment never pass the maximum together", async () => {
  const table = sumTable(2, seed);
  const held = new BigInt64Array(new SharedArrayBuffer(8));
  const source = `
    const { parentPort, workerData } = require("node:worker_threads");
    import(workerData.module).then(({ sharedSums }) => {
      const sums = sharedSums(workerData.table, workerData.thread)("bodies");
      let passed = 0;
      let taken = 0;
      for (let i = 0; i < 20_000; i++) {
        if (!sums.add("all", 7, 10)) continue;
        taken += 1;
        if (Atomics.add(workerData.held, 0, 7n) + 7n > 10n) passed += 1;
        Atomics.sub(workerData.held, 0, 7n);
        sums.subtract("all", 7);
      }
      parentPort.postMessage({ passed, taken });
    });`;
  const module = new URL("../../../src/base/sums.ts", import.meta.url).href;
  const results = await Promise.all(
    [0, 1].map((thread) => {
      const worker = new Worker(source, { eval: true, workerData: { table, held, thread, module } });
      return new Promise<{ readonly passed: number; readonly taken: number }>((resolve, reject) => {
        worker.once("message", resolve);
        worker.once("error", reject);
      });
    }),
  );
  expect(results.map(({ passed }) => passed)).toEqual([0, 0]);
  expect(Math.min(...results.map(({ taken }) => taken))).toBeGreaterThan(0);
  expect(sharedSums(table, 0)("bodies").of("all")).toBe(0);
});
