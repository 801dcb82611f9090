/**
 * Sums under names, none of which passes its maximum: bytes of bodies by tenant, connections by address. They are one
 * thread's own, or those of several threads that together keep to the maximum.
 */

/** Sums of one kind. Amounts are whole numbers. */
export interface Sums {
  /** Adds where the sum stays within the maximum; else it adds nothing and returns false. */
  add(name: string, amount: number, maximum: number): boolean;
  /** Takes back what this thread has added. */
  subtract(name: string, amount: number): void;
  /** What has been added under the name. */
  of(name: string): number;
}

/** Gives the sums of a kind. Names of one kind are apart from those of another. */
export type SumsOf = (kind: string) => Sums;

/** Sums of this thread alone, exact. */
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

const rows = 4;
const cells = 8_192;
/** Two words that seed the hash: which names share a cell is not to be foreseen. */
const seedBytes = 8;

/** Memory for the sums of so many threads: 256 KiB each, of which the system gives what is used. */
export interface SumTable {
  readonly memory: SharedArrayBuffer;
  readonly threads: number;
}

/** @param seed random, 8 bytes */
export function sumTable(threads: number, seed: Uint8Array): SumTable {
  const memory = new SharedArrayBuffer(seedBytes + rows * cells * threads * BigInt64Array.BYTES_PER_ELEMENT);
  new Uint8Array(memory, 0, seedBytes).set(seed.subarray(0, seedBytes));
  return { memory, threads };
}

function countersOf({ memory }: SumTable): BigInt64Array {
  return new BigInt64Array(memory, seedBytes);
}

/**
 * The sums that one of several threads takes part in, from 0. A count–min sketch (Cormode and Muthukrishnan, 2005):
 * each name has a cell in every row, and the least of them counts. So a sum is never too small, and no maximum is ever
 * passed; it is too large only where other names that are counted now share all of its cells, which is less likely than
 * 1 in 4,000 with a thousand of them. Every thread writes counters of its own: what one has added can be taken back when
 * it is no more.
 */
export function sharedSums(table: SumTable, thread: number): SumsOf {
  const counters = countersOf(table);
  const { threads } = table;
  const [seed1 = 0, seed2 = 0] = new Uint32Array(table.memory, 0, 2);

  /** Where the name's counters begin, in each row; those of all threads stand together. */
  function placesOf(name: string): readonly number[] {
    let [hash1, hash2] = [seed1, seed2];
    for (let i = 0; i < name.length; i++) {
      const code = name.charCodeAt(i);
      hash1 = Math.imul(hash1 ^ code, 0x9e3779b1);
      hash1 ^= hash1 >>> 15;
      hash2 = Math.imul(hash2 ^ code, 0x85ebca6b);
      hash2 ^= hash2 >>> 13;
    }
    // Double hashing: any two rows are independent enough (Kirsch and Mitzenmacher, 2006).
    return Array.from(
      { length: rows },
      (_, row) => (row * cells + (((hash1 + Math.imul(row, hash2 | 1)) >>> 0) % cells)) * threads,
    );
  }

  function change(places: readonly number[], amount: number): void {
    for (const place of places) Atomics.add(counters, place + thread, BigInt(amount));
  }

  function sumAt(places: readonly number[]): number {
    let least = Number.POSITIVE_INFINITY;
    for (const place of places) {
      let sum = 0n;
      for (let i = 0; i < threads; i++) sum += Atomics.load(counters, place + i);
      least = Math.min(least, Number(sum));
    }
    return least;
  }

  return (kind) => {
    const own = (name: string) => placesOf(`${kind} ${name}`);
    return {
      of: (name) => sumAt(own(name)),
      add(name, amount, maximum) {
        const places = own(name);
        // First added and then looked at: of two threads that add at once, one sees what the other added.
        change(places, amount);
        if (sumAt(places) <= maximum) return true;
        change(places, -amount);
        return false;
      },
      subtract: (name, amount) => change(own(name), -amount),
    };
  };
}

/** Takes back all that a thread has added that is no more. */
export function forgetThread(table: SumTable, thread: number): void {
  const counters = countersOf(table);
  for (let place = thread; place < counters.length; place += table.threads) Atomics.store(counters, place, 0n);
}
