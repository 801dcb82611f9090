/**
 * Answers that are made while their write is being committed: signing takes the event loop, and syncing the store's thread
 * and the disk, so neither need wait for the other. They stay here until the store says that this very result is durable;
 * those of a write that failed are dropped with it.
 */
import type { BatchResult } from "../ports/store.ts";
import type { CheckpointSigner } from "../tlog/signer.ts";
import { type Answer, answersOf } from "./answering.ts";

/** Of one write. */
export class EarlyAnswers {
  readonly #signer: CheckpointSigner;
  readonly #made = new Map<BatchResult, readonly Answer[]>();

  constructor(signer: CheckpointSigner) {
    this.#signer = signer;
  }

  /** Makes the answers of a result that is not durable yet. What cannot be made is made when it is asked for. */
  make(result: BatchResult): void {
    try {
      this.#made.set(result, answersOf(result, this.#signer));
    } catch {
      // Who asks for it is told why, where it is still so.
    }
  }

  /** The answers of a result that is committed. Throws where it cannot be signed. */
  of(result: BatchResult): readonly Answer[] {
    return this.#made.get(result) ?? answersOf(result, this.#signer);
  }
}
