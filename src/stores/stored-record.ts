/** Records as stores hold them, opened. */

import type { StoredRecord } from "../ledger/ports/record.ts";
import { type Leaf, parseLeaf } from "../ledger/record/leaf.ts";
import { open } from "../ledger/record/sealing.ts";
import { DamagedError } from "./errors.ts";

/** A stored leaf. Throws `DamagedError`, which names it as `what`, where it does not parse. */
export function readLeaf(what: string, leaf: Uint8Array): Leaf {
  return orDamaged(what, () => parseLeaf(leaf));
}

/**
 * The record that was sealed under an opening. Throws `DamagedError`, which names it as `what`, where it is not the one
 * that its leaf commits to.
 */
export function openStoredRecord(
  what: string,
  leaf: Uint8Array,
  sealed: Uint8Array,
  opening: Uint8Array,
): StoredRecord {
  return orDamaged(what, () => {
    const record = open(sealed, opening, parseLeaf(leaf).commitment);
    return JSON.parse(Buffer.from(record).toString("utf8")) as StoredRecord;
  });
}

function orDamaged<Value>(what: string, read: () => Value): Value {
  try {
    return read();
  } catch (cause) {
    throw new DamagedError(`${what} does not verify`, { cause });
  }
}
