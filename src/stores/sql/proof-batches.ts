/** Batches DPoP replay checks: those that arrive while the writer is busy share the next commit. */
import type { ProofUse } from "../../auth/replay-store.ts";
import { unavailable } from "../files/errors.ts";

export interface ProofRow extends ProofUse {
  /** Milliseconds since the Unix epoch after which the use may be forgotten. */
  readonly expiresAtMs: number;
}

/** Rows of one transaction. */
const maxBatch = 256;
/** Bound of waiting calls. */
const maxWaiting = 10_000;

interface Waiting {
  readonly row: ProofRow;
  resolve(first: boolean): void;
  reject(error: unknown): void;
}

export class ProofBatches {
  readonly #write: (rows: readonly ProofRow[]) => Promise<readonly boolean[]>;
  readonly #waiting: Waiting[] = [];
  #writing = false;

  /** @param write returns for each row, in order, whether its use is the first; durable when it resolves */
  constructor(write: (rows: readonly ProofRow[]) => Promise<readonly boolean[]>) {
    this.#write = write;
  }

  get isIdle(): boolean {
    return !this.#writing;
  }

  /** Rejects as `write` does, and with `store_unavailable` if too many calls wait. */
  firstUse(use: ProofUse, expiresAtMs: number): Promise<boolean> {
    if (this.#waiting.length >= maxWaiting) return Promise.reject(unavailable("Too many proofs wait to be noted."));
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    this.#waiting.push({ row: { ...use, expiresAtMs }, resolve, reject });
    if (!this.#writing) void this.#writeAll();
    return promise;
  }

  async #writeAll(): Promise<void> {
    this.#writing = true;
    while (this.#waiting.length > 0) await this.#writeSome(this.#waiting.splice(0, maxBatch));
    this.#writing = false;
  }

  async #writeSome(batch: readonly Waiting[]): Promise<void> {
    try {
      const first = await this.#write(batch.map(({ row }) => row));
      for (const [i, { resolve }] of batch.entries()) resolve(first[i] === true);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}
