/** Opens stored records. */

import { parseJson } from "../../base/json.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import { type Leaf, parseLeaf } from "../../ledger/record/leaf.ts";
import { open } from "../../ledger/record/sealing.ts";
import { DamagedError } from "../files/errors.ts";

/** Parses a stored leaf. Throws `DamagedError`, which names it as `what`, if it does not parse. */
export function readLeaf(what: string, leaf: Uint8Array): Leaf {
  return orDamaged(what, () => parseLeaf(leaf));
}

/** Opens a sealed record. Throws `DamagedError`, which names it as `what`, if its leaf does not commit to it. */
export function openStoredRecord(
  what: string,
  leaf: Uint8Array,
  sealed: Uint8Array,
  opening: Uint8Array,
): StoredRecord {
  const record = openStoredBytes(what, leaf, sealed, opening);
  return orDamaged(what, () => parseJson(Buffer.from(record).toString("utf8")) as StoredRecord);
}

/** Opens a sealed record as `openStoredRecord` does, and returns its exact bytes. */
export function openStoredBytes(what: string, leaf: Uint8Array, sealed: Uint8Array, opening: Uint8Array): Uint8Array {
  return orDamaged(what, () => open(sealed, opening, parseLeaf(leaf).commitment));
}

function orDamaged<Value>(what: string, read: () => Value): Value {
  try {
    return read();
  } catch (cause) {
    throw new DamagedError(`${what} does not verify`, { cause });
  }
}
