/** The results of an append, as the store's thread tells of them: part after part, and at the end that they are committed. */
import type { BatchResult } from "../../ledger/ports/store.ts";
import type { AppendedParts, AppendPart } from "./protocol.ts";

export class AppendParts {
  readonly #foresee: ((result: BatchResult) => void) | undefined;
  #attempt: number | undefined;
  #results: BatchResult[] = [];

  /** @param foresee told of each result before it is committed */
  constructor(foresee: ((result: BatchResult) => void) | undefined) {
    this.#foresee = foresee;
  }

  add({ attempt, results }: AppendPart): void {
    // What an earlier try of the thread has told of was rolled back.
    if (attempt !== this.#attempt) this.#results = [];
    this.#attempt = attempt;
    for (const result of results) {
      this.#results.push(result);
      this.#foresee?.(result);
    }
  }

  /** All results: those that were foreseen, and those of the answer. Throws where they are not what was committed. */
  committed({ attempt, results }: AppendedParts): readonly BatchResult[] {
    if (attempt === this.#attempt) return [...this.#results, ...results];
    if (results.length === 0) throw new Error("The store has committed what it did not tell of.");
    return results;
  }
}
