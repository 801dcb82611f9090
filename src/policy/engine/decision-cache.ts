/**
 * A cache of combined decisions. They are a pure function of the inputs that the sets read, so exactly those inputs are
 * the key. Each engine has its own cache, so the revision is not part of the key.
 */
import { LRUCache } from "lru-cache";
import type { PolicyQuery } from "../model/decision.ts";
import type { InputCatalogue } from "../model/inputs.ts";

/** Compiles the cache key of a query: scope, then the value of every named input. Equal keys mean equal inputs. */
export function keyMaker(
  scope: string,
  inputNames: readonly string[],
  catalogue: InputCatalogue,
): (query: PolicyQuery) => string {
  const readers = inputNames.map((name) => catalogue.reader(name));
  // JSON writes an absent input as null, which no input can be.
  return (query) => JSON.stringify([scope, ...readers.map((read) => read(query))]);
}

/** Longer keys are not cached: they have many labels and attributes, which seldom repeat. */
const maxKeyLength = 4096;

/** Bounded by the number of entries and by total key length; the least recently used are evicted. */
export class DecisionCache<Value extends object> {
  readonly #entries: LRUCache<string, Value>;

  /** @param maxEntries at least 1; keys take at most 512 characters per entry on average */
  constructor(maxEntries: number) {
    this.#entries = new LRUCache({
      max: maxEntries,
      maxSize: Math.max(maxEntries * 512, maxKeyLength),
      sizeCalculation: (_value, key) => key.length,
    });
  }

  get(key: string): Value | undefined {
    return this.#entries.get(key);
  }

  set(key: string, value: Value): void {
    if (key.length <= maxKeyLength) this.#entries.set(key, value);
  }

  clear(): void {
    this.#entries.clear();
  }
}
