/**
 * The keys that a process signs checkpoints with. After another process has rotated them, this process takes the new
 * key from its file, or stops signing.
 */
import { type ServiceError, storeUnavailable } from "../../base/errors.ts";
import { securityFields } from "../../base/security-events.ts";
import { formatBase64 } from "../../base/text-forms.ts";
import type { ErasureStatement } from "../../ledger/ports/record.ts";
import type { Checkpoint } from "../../ledger/tlog/checkpoint.ts";
import type { SignedRoot } from "../../ledger/tlog/cose-receipt.ts";
import { type CheckpointSigner, LogSigner } from "../../ledger/tlog/signer.ts";
import { sameHash } from "../../ledger/tlog/tree.ts";
import { readKeyFile, type SigningKeys } from "../files/key-file.ts";
import type { StoreLogger } from "./backend.ts";
import { readPublicKeys } from "./log-rows.ts";
import type { Queries } from "./queries.ts";

/** The log has been handed over to a later key than this process signs with. Nothing was stored. */
export class RetiredKeyError extends Error {
  override readonly name = "RetiredKeyError";
  /** Public key that signs now. 32 bytes. */
  readonly newest: Uint8Array;

  constructor(newest: Uint8Array) {
    super(`The logs have been handed over to the key ${formatBase64(newest)}.`);
    this.newest = newest;
  }
}

/** Bound of the rotations in a row that one piece of work follows. */
const maxRotations = 8;

export class KeyRing implements CheckpointSigner {
  readonly #keyPath: string;
  readonly #logger: StoreLogger | undefined;
  #keys: SigningKeys;
  #signer: LogSigner;
  #problem: string | undefined;

  /** @param keyPath of the key file, which may be replaced while the process runs */
  constructor(keys: SigningKeys, keyPath: string, logger: StoreLogger | undefined) {
    this.#keys = keys;
    this.#signer = new LogSigner(keys);
    this.#keyPath = keyPath;
    this.#logger = logger;
  }

  /** Public key that checkpoints are signed with. 32 bytes. */
  get current(): Uint8Array {
    return this.#keys[0].publicKey;
  }

  /** Returns the operator's statement of a key, if the file that this process has read has one. */
  statementOf(publicKey: Uint8Array): ErasureStatement | undefined {
    return this.#keys.find((key) => sameHash(key.publicKey, publicKey))?.statement;
  }

  /** Throws `ServiceError` `store_unavailable` if the keys have been retired. */
  sign(checkpoint: Checkpoint): string {
    return this.#signing.sign(checkpoint);
  }

  /** Throws like `sign`. */
  signRoot(checkpoint: Checkpoint): SignedRoot {
    return this.#signing.signRoot(checkpoint);
  }

  get #signing(): LogSigner {
    if (this.#problem !== undefined) throw retired(this.#problem);
    return this.#signer;
  }

  verifierKeys(origin: string): string[] {
    return this.#signer.verifierKeys(origin);
  }

  /**
   * Signs with the store's newest key from now on, and with those behind it in the file. Throws `ServiceError`
   * `store_unavailable` if the file does not have it; nothing is signed until it does.
   */
  follow(newest: Uint8Array): void {
    if (sameHash(newest, this.current)) {
      this.#problem = undefined;
      return;
    }
    const wanted = formatBase64(newest);
    const found = readFrom(this.#keyPath, newest);
    if (typeof found === "string") {
      if (this.#problem !== found)
        this.#logger?.warn(
          { ...securityFields("ledger_key_missing"), public_key: wanted, problem: found },
          "the ledger key was rotated: nothing is signed any more",
        );
      this.#problem = found;
      throw retired(found);
    }
    this.#keys = found;
    this.#signer = new LogSigner(found);
    this.#problem = undefined;
    this.#logger?.warn(
      { ...securityFields("ledger_key_changed"), public_key: wanted },
      "the ledger key was rotated: the new one signs from now on",
    );
  }

  /** Does work that names the current key, and repeats it after each rotation meanwhile. Rejects like `follow`. */
  async following<Result>(work: (current: Uint8Array) => Promise<Result>): Promise<Result> {
    for (let rotations = 0; ; rotations++) {
      try {
        return await work(this.current);
      } catch (error) {
        if (!(error instanceof RetiredKeyError)) throw error;
        this.follow(error.newest);
        if (rotations === maxRotations) throw retired(error.message);
      }
    }
  }
}

/** Returns the keys of the file from this one on; keys before it are not admitted yet. Returns a problem otherwise. */
function readFrom(keyPath: string, newest: Uint8Array): SigningKeys | string {
  let keys: SigningKeys | undefined;
  try {
    keys = readKeyFile(keyPath);
  } catch (error) {
    return error instanceof Error ? error.message : `${keyPath} cannot be read.`;
  }
  const at = keys?.findIndex(({ publicKey }) => sameHash(publicKey, newest)) ?? -1;
  const [first, ...rest] = keys?.slice(Math.max(0, at)) ?? [];
  return at === -1 || first === undefined
    ? `${keyPath} does not have the key that signs the logs now.`
    : [first, ...rest];
}

function retired(problem: string): ServiceError {
  const message = "The ledger key was rotated, and this gateway does not have the new one.";
  return storeUnavailable(message, new Error(problem));
}

/** Follows the store's newest key, or throws. */
type Ring = Pick<KeyRing, "current" | "statementOf" | "follow">;

/**
 * A log's head holds the position of the key that signs the log. A rotation notes the new key first, then hands over
 * each log under the lock of its head. The holder of that lock therefore sees whether its key is still valid there.
 */
export class SigningKeysOfStore {
  readonly #ring: Ring;
  /** Public keys by position, as last read. Keys are never removed. */
  #keys: readonly Uint8Array[] = [];

  constructor(ring: Ring) {
    this.#ring = ring;
  }

  get position(): number {
    return this.#keys.findIndex((key) => sameHash(key, this.#ring.current));
  }

  at(position: number): Uint8Array {
    const key = this.#keys[position];
    if (key === undefined) throw new Error(`The store has no key ${position}.`);
    return key;
  }

  /** Returns the operator's statement of the key at a position, if this process knows it. */
  statementAt(position: number): ErasureStatement | undefined {
    return this.#ring.statementOf(this.at(position));
  }

  /** Takes the store's newest key. Rejects as `KeyRing.follow` throws if this process does not have it. */
  async follow(queries: Queries): Promise<void> {
    this.#keys = await readPublicKeys(queries);
    const newest = this.#keys.at(-1);
    if (newest === undefined) throw new Error("The store does not say which key signs its logs.");
    this.#ring.follow(newest);
  }

  /** As `follow`, if a log was handed over to a later key than this process has. */
  async followLog(queries: Queries, position: number): Promise<void> {
    if (position > this.position) await this.follow(queries);
  }
}
