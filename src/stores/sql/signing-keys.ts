/** Which key signs the logs, according to the database, and the keys that this process has. */
import type { ErasureStatement } from "../../ledger/ports/record.ts";
import { sameHash } from "../../ledger/tlog/tree.ts";
import type { KeyRing } from "./key-ring.ts";
import type { Queries, Statement } from "./queries.ts";

const keysByPosition: Statement = {
  name: "keys_by_position",
  text: "SELECT public_key FROM signing_keys ORDER BY position",
};

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
    this.#keys = (await queries.query(keysByPosition, [])).rows.map(({ public_key }) => public_key as Uint8Array);
    const newest = this.#keys.at(-1);
    if (newest === undefined) throw new Error("The store does not say which key signs its logs.");
    this.#ring.follow(newest);
  }

  /** As `follow`, if a log was handed over to a later key than this process has. */
  async followLog(queries: Queries, position: number): Promise<void> {
    if (position > this.position) await this.follow(queries);
  }
}
