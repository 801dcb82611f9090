/** Collects the results of an append from the store's thread: parts before the commit, and the answer after it. */
import type { BatchResult } from "../../ledger/ports/store.ts";
import type { AppendedParts, AppendPart } from "./protocol.ts";

export class AppendParts {
  readonly #onUncommitted: ((result: BatchResult) => void) | undefined;
  #attempt: number | undefined;
  #results: BatchResult[] = [];

  /** The callback gets each result before it is committed. */
  constructor(onUncommitted: ((result: BatchResult) => void) | undefined) {
    this.#onUncommitted = onUncommitted;
  }

  add({ attempt, results }: AppendPart): void {
    // Results of an earlier attempt were rolled back.
    if (attempt !== this.#attempt) this.#results = [];
    this.#attempt = attempt;
    for (const result of results) {
      this.#results.push(result);
      this.#onUncommitted?.(result);
    }
  }

  /** Returns the results of all parts and of the answer. Throws if they differ from what was committed. */
  committed({ attempt, results }: AppendedParts): readonly BatchResult[] {
    if (attempt === this.#attempt) return [...this.#results, ...results];
    if (results.length === 0) throw new Error("The store has committed results that it did not send.");
    return results;
  }
}
