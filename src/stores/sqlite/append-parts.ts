/** Collects the results of an append from the store's thread: parts before the commit, and the answer after it. */
import type { BatchResult } from "../../ledger/ports/store.ts";
import type { AppendedParts, AppendPart } from "./protocol.ts";

export class AppendParts {
  readonly #foresee: ((result: BatchResult) => void) | undefined;
  #attempt: number | undefined;
  #results: BatchResult[] = [];

  /** The callback gets each result before it is committed. */
  constructor(foresee: ((result: BatchResult) => void) | undefined) {
    this.#foresee = foresee;
  }

  add({ attempt, results }: AppendPart): void {
    // Results of an earlier attempt were rolled back.
    if (attempt !== this.#attempt) this.#results = [];
    this.#attempt = attempt;
    for (const result of results) {
      this.#results.push(result);
      this.#foresee?.(result);
    }
  }

  /** Returns the results of all parts and of the answer. Throws if they differ from what was committed. */
  committed({ attempt, results }: AppendedParts): readonly BatchResult[] {
    if (attempt === this.#attempt) return [...this.#results, ...results];
    if (results.length === 0) throw new Error("The store has committed what it did not tell of.");
    return results;
  }
}
