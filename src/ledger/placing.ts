import type { RecordId } from "../base/ids.ts";
import type { Sequenced } from "./sequence.ts";
import type { LogState, PlacedRecord, StoredTree } from "./store.ts";
import { formatBase64 } from "./text-forms.ts";
import { formatPath } from "./tlog-proof.ts";
import { leafHash, type Tree } from "./tree.ts";

/** A record of a log, in full. */
export interface LoggedRecord {
  readonly recordId: RecordId;
  readonly leafIndex: number;
  readonly recordedAt: string;
  readonly leaf: Uint8Array;
  readonly opening: Uint8Array;
  readonly record: Uint8Array;
}

/** What a receipt is made of: the record and its place in a tree whose size and root are `stored`. */
export function placeRecord(logged: LoggedRecord, tree: Tree, stored: StoredTree): PlacedRecord {
  const { recordId, leafIndex, recordedAt, leaf, opening, record } = logged;
  return {
    recordId,
    leafIndex,
    recordedAt,
    tree: stored,
    leafHash: formatBase64(leafHash(leaf)),
    path: formatPath(tree.inclusionProof(leafIndex)),
    leaf: formatBase64(leaf),
    opening: formatBase64(opening),
    record: formatBase64(record),
  };
}

/** The batch's own records, without the genesis. */
export function placeAll(
  { entries, firstLeafIndex, recordedAt }: Sequenced,
  tree: Tree,
  log: LogState,
): PlacedRecord[] {
  const stored: StoredTree = { size: log.size, root: log.root };
  return entries
    .filter(({ leafIndex }) => leafIndex >= firstLeafIndex)
    .map((entry) => placeRecord({ ...entry, recordedAt }, tree, stored));
}
