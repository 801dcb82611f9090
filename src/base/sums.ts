/** Sums under names, none of which passes its maximum: bytes of bodies by tenant, connections by address. */

/** Sums of one kind. Amounts are whole numbers. */
export interface Sums {
  /** Adds where the sum stays within the maximum; else it adds nothing and returns false. */
  add(name: string, amount: number, maximum: number): boolean;
  /** Takes back what was added. */
  subtract(name: string, amount: number): void;
  /** What has been added under the name. */
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
