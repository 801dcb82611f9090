/** Who signs checkpoints: the deployment's key, under the name of each log. */
import { type Checkpoint, signCheckpoint } from "./checkpoint.ts";
import { formatVerifierKey, noteSigner, type SigningKey } from "./note-keys.ts";

export class LogSigner {
  readonly #keys: readonly SigningKey[];

  /** The first key is the current one; those after it are retiring, and sign too while a rotation lasts. */
  constructor(keys: readonly [SigningKey, ...SigningKey[]]) {
    this.#keys = keys;
  }

  /**
   * The signed checkpoint. The caller vouches that the tree is committed, and that no other tree of this size ever was
   * in this log: what is signed cannot be taken back.
   */
  sign(checkpoint: Checkpoint): string {
    return signCheckpoint(
      checkpoint,
      this.#keys.map((key) => noteSigner(checkpoint.origin, key)),
    );
  }

  /** Verifier keys of a log, one for each key that signs it, the current one first. */
  verifierKeys(origin: string): string[] {
    return this.#keys.map(({ publicKey }) => formatVerifierKey(origin, publicKey));
  }
}
