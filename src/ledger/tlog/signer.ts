/** Who signs checkpoints: the deployment's key, under the name of each log. */

import { type Checkpoint, signCheckpoint } from "./checkpoint.ts";
import { formatVerifierKey, noteSigner, type SigningKey } from "./note-keys.ts";

export interface CheckpointSigner {
  /**
   * The signed checkpoint. The caller vouches that the tree is committed, and that no other tree of this size ever was
   * in this log: what is signed cannot be taken back.
   */
  sign(checkpoint: Checkpoint): string;
  /** Verifier keys of a log, one for each key that signs it, the current one first. */
  verifierKeys(origin: string): string[];
}

export class LogSigner implements CheckpointSigner {
  readonly #keys: readonly SigningKey[];

  /** The first key is the current one; those after it are retiring, and sign too while a rotation lasts. */
  constructor(keys: readonly [SigningKey, ...SigningKey[]]) {
    this.#keys = keys;
  }

  sign(checkpoint: Checkpoint): string {
    return signCheckpoint(
      checkpoint,
      this.#keys.map((key) => noteSigner(checkpoint.origin, key)),
    );
  }

  verifierKeys(origin: string): string[] {
    return this.#keys.map(({ publicKey }) => formatVerifierKey(origin, publicKey));
  }
}

/** Gives the lines of cosignatures of exactly this tree that are at hand. */
export interface CosignatureSource {
  cosignatures(checkpoint: Checkpoint): string;
}

/** A signer that puts the cosignatures that are at hand after its own signatures. */
export function cosigning(signer: CheckpointSigner, anchor: CosignatureSource): CheckpointSigner {
  return {
    sign: (checkpoint) => signer.sign(checkpoint) + anchor.cosignatures(checkpoint),
    verifierKeys: (origin) => signer.verifierKeys(origin),
  };
}
