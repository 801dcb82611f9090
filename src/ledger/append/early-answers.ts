/**
 * Signs answers on the event loop while the store's thread syncs the commit to disk. Answers stay here until the store
 * confirms the result; a failed write drops them.
 */
import type { BatchResult } from "../ports/store.ts";
import type { CheckpointSigner } from "../tlog/signer.ts";
import { type Answer, answersOf } from "./answering.ts";

export class EarlyAnswers {
  readonly #signer: CheckpointSigner;
  readonly #made = new Map<BatchResult, readonly Answer[]>();

  constructor(signer: CheckpointSigner) {
    this.#signer = signer;
  }

  /** Makes the answers of a result that is not durable yet. A failure is ignored; `of` then makes them. */
  make(result: BatchResult): void {
    try {
      this.#made.set(result, answersOf(result, this.#signer));
    } catch {
      // `of` signs again, and throws if it still fails.
    }
  }

  /** Returns the answers of a committed result. Throws if it cannot be signed. */
  of(result: BatchResult): readonly Answer[] {
    return this.#made.get(result) ?? answersOf(result, this.#signer);
  }
}
