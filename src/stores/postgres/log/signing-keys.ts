/** Which key signs the logs, as the database has it, and what this process has of it. */
import type { ErasureStatement } from "../../../ledger/ports/record.ts";
import { sameHash } from "../../../ledger/tlog/tree.ts";
import type { KeyRing } from "../../key-ring.ts";
import type { Queries, Statement } from "../../sql/queries.ts";

const keysByPosition: Statement = {
  name: "keys_by_position",
  text: "SELECT public_key FROM signing_keys ORDER BY position",
};

/**
 * A log's head says by its position which key signs the log. A rotation notes the new key first, and then hands every
 * log over under the lock of its head: whoever holds that lock so sees whether his key still counts there.
 */
export class SigningKeysOfStore {
  readonly #ring: KeyRing;
  /** Public keys by position, as they were when they were read last. None is ever taken away. */
  #keys: readonly Uint8Array[] = [];

  constructor(ring: KeyRing) {
    this.#ring = ring;
  }

  /** Position of the key that this process signs with. */
  get position(): number {
    return this.#keys.findIndex((key) => sameHash(key, this.#ring.current));
  }

  /** Public key at a position that a head has. */
  at(position: number): Uint8Array {
    const key = this.#keys[position];
    if (key === undefined) throw new Error(`The store has no key ${position}.`);
    return key;
  }

  /** Who brought the key at a position, and why, where this process knows. */
  statementAt(position: number): ErasureStatement | undefined {
    return this.#ring.statementOf(this.at(position));
  }

  /** Takes the store's newest key. Rejects as `KeyRing.follow` throws where this process does not have it. */
  async follow(queries: Queries): Promise<void> {
    this.#keys = (await queries.query(keysByPosition, [])).rows.map(({ public_key }) => public_key as Uint8Array);
    const newest = this.#keys.at(-1);
    if (newest === undefined) throw new Error("The store does not say which key signs its logs.");
    this.#ring.follow(newest);
  }

  /** As `follow`, where the log that has a key at this position was handed over to a later one than this process has. */
  async followLog(queries: Queries, position: number): Promise<void> {
    if (position > this.position) await this.follow(queries);
  }
}
