/** Signs checkpoints with the deployment's key, under the name of each log. */
import { LRUCache } from "lru-cache";
import { type Checkpoint, signCheckpoint } from "./checkpoint.ts";
import { type SignedRoot, signRoot } from "./cose-receipt.ts";
import { formatVerifierKey, type NoteSigner, noteSigner, type SigningKey } from "./note-keys.ts";

export interface CheckpointSigner {
  /**
   * Signs a checkpoint. The caller must ensure that it leaves the process only once the tree is committed, and that the
   * log never had another tree of this size: a published signature cannot be revoked.
   */
  sign(checkpoint: Checkpoint): string;
  /** Signs the root alone, by the current key, for COSE receipts. The same conditions hold. */
  signRoot(checkpoint: Checkpoint): SignedRoot;
  /** Verifier keys of a log, one for each key that signs it, the current one first. */
  verifierKeys(origin: string): string[];
}

/** Most cached signers of logs, about 400 bytes each; the id of a key for a log is a hash. */
const maxLogs = 4_096;

type Signers = readonly [NoteSigner, ...NoteSigner[]];

export class LogSigner implements CheckpointSigner {
  readonly #keys: readonly [SigningKey, ...SigningKey[]];
  /** By origin. */
  readonly #signers = new LRUCache<string, Signers>({ max: maxLogs });

  /** The first key is the current one; the others are retiring, and also sign during a rotation. */
  constructor(keys: readonly [SigningKey, ...SigningKey[]]) {
    this.#keys = keys;
  }

  sign(checkpoint: Checkpoint): string {
    return signCheckpoint(checkpoint, this.#signersOf(checkpoint.origin));
  }

  signRoot(checkpoint: Checkpoint): SignedRoot {
    return signRoot(checkpoint, this.#signersOf(checkpoint.origin)[0]);
  }

  #signersOf(origin: string): Signers {
    const known = this.#signers.get(origin);
    if (known !== undefined) return known;
    const [current, ...retiring] = this.#keys;
    const signers: Signers = [noteSigner(origin, current), ...retiring.map((key) => noteSigner(origin, key))];
    this.#signers.set(origin, signers);
    return signers;
  }

  verifierKeys(origin: string): string[] {
    return this.#keys.map(({ publicKey }) => formatVerifierKey(origin, publicKey));
  }
}

/** A signer that appends known cosignatures of exactly this tree to its own signatures. */
export function cosigning(
  signer: CheckpointSigner,
  anchor: { cosignatures(checkpoint: Checkpoint): string },
): CheckpointSigner {
  return {
    sign: (checkpoint) => signer.sign(checkpoint) + anchor.cosignatures(checkpoint),
    signRoot: (checkpoint) => signer.signRoot(checkpoint),
    verifierKeys: (origin) => signer.verifierKeys(origin),
  };
}
