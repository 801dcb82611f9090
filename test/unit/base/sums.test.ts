import fc from "fast-check";
import { expect, test } from "vitest";
import { localSums } from "../../../src/base/sums.ts";

const step = fc.record({
  name: fc.constantFrom("all", "t-1", "t-2", "192.0.2.1", ""),
  amount: fc.integer({ min: 0, max: 2 ** 38 }),
  maximum: fc.integer({ min: 0, max: 2 ** 40 }),
  takesBack: fc.boolean(),
});

test("a sum grows only up to its maximum, and is what was added less what was taken back", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const sums = localSums();
      const model = new Map<string, number>();
      const added: { readonly name: string; readonly amount: number }[] = [];
      for (const { name, amount, maximum, takesBack } of steps) {
        const sum = model.get(name) ?? 0;
        const fits = sum + amount <= maximum;
        expect(sums.add(name, amount, maximum)).toBe(fits);
        if (fits) {
          model.set(name, sum + amount);
          added.push({ name, amount });
        }
        const last = takesBack ? added.pop() : undefined;
        if (last !== undefined) {
          sums.subtract(last.name, last.amount);
          model.set(last.name, (model.get(last.name) ?? 0) - last.amount);
        }
        for (const [each, expected] of model) expect(sums.of(each)).toBe(expected);
      }
    }),
    { numRuns: 200 },
  );
});
