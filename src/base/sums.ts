/** Named sums with maxima, such as bytes of bodies by tenant or connections by address. */

/** Amounts are whole numbers. */
interface Sums {
  /** Adds the amount, or returns false if the sum would exceed the maximum. */
  add(name: string, amount: number, maximum: number): boolean;
  subtract(name: string, amount: number): void;
  of(name: string): number;
}

export function localSums(): Sums {
  const sums = new Map<string, number>();
  const of = (name: string) => sums.get(name) ?? 0;
  const put = (name: string, sum: number) => {
    if (sum === 0) sums.delete(name);
    else sums.set(name, sum);
  };
  return {
    of,
    add(name, amount, maximum) {
      const sum = of(name) + amount;
      if (sum > maximum) return false;
      put(name, sum);
      return true;
    },
    subtract: (name, amount) => put(name, of(name) - amount),
  };
}
