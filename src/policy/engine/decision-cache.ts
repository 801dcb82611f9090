/**
 * A memory of rulings. A ruling is a pure function of the facts that the sets read, so a key made of exactly those is
 * exact: two questions with one key have one ruling. An engine has its own memory, so the revision is in no key.
 */
import { LRUCache } from "lru-cache";
import type { PolicyQuery } from "./decision.ts";
import { factReader } from "./facts.ts";

/** Makes the key of a question: its scope, then the value of every named fact. Equal keys mean equal facts. */
export function keyMaker(scope: string, factNames: readonly string[]): (query: PolicyQuery) => string {
  const readers = factNames.map(factReader);
  // JSON writes an absent fact as null, which no fact can be.
  return (query) => JSON.stringify([scope, ...readers.map((read) => read(query))]);
}

/** Longer keys are not kept: they come from requests full of labels and attributes, which seldom come twice. */
const maxKeyLength = 4096;

/** Bounded by the number of entries and by the sum of key lengths; the least recently used go first. */
export class DecisionCache<Ruling extends object> {
  readonly #entries: LRUCache<string, Ruling>;

  /** @param maxEntries 1 or more; keys take at most 512 characters an entry on average */
  constructor(maxEntries: number) {
    this.#entries = new LRUCache({
      max: maxEntries,
      maxSize: Math.max(maxEntries * 512, maxKeyLength),
      sizeCalculation: (_ruling, key) => key.length,
    });
  }

  get(key: string): Ruling | undefined {
    return this.#entries.get(key);
  }

  set(key: string, ruling: Ruling): void {
    if (key.length <= maxKeyLength) this.#entries.set(key, ruling);
  }

  clear(): void {
    this.#entries.clear();
  }
}
