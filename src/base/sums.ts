/** Named sums with maxima, such as bytes of bodies by tenant or connections by address. */

/** Amounts are whole numbers. */
export function localSums() {
  const sums = new Map<string, number>();
  const of = (name: string) => sums.get(name) ?? 0;
  const put = (name: string, sum: number) => {
    if (sum === 0) sums.delete(name);
    else sums.set(name, sum);
  };
  /** Adds the amount, or returns false if the sum would exceed the maximum. */
  const add = (name: string, amount: number, maximum: number) => {
    const sum = of(name) + amount;
    if (sum > maximum) return false;
    put(name, sum);
    return true;
  };
  const subtract = (name: string, amount: number) => put(name, of(name) - amount);
  return {
    of,
    add,
    subtract,
    /** Adds the amount to the sums of all shares; or to none, and returns the first that is full. */
    addAll<Share extends { readonly name: string; readonly maximum: number }>(
      shares: readonly Share[],
      amount: number,
    ): Share | undefined {
      const full = shares.findIndex(({ name, maximum }) => !add(name, amount, maximum));
      if (full === -1) return undefined;
      for (const { name } of shares.slice(0, full)) subtract(name, amount);
      return shares[full];
    },
  };
}
