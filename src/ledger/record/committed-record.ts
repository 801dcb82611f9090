/** Records as their receipts need them. */
import type { RecordId } from "../../base/ids.ts";
import { formatBase64 } from "../../base/text-forms.ts";
import type { ShownOfRecord } from "../ports/ledger.ts";
import type { BatchResult, CommittedRecord, LogState } from "../ports/store.ts";
import { formatPath, formatPaths } from "../tlog/tlog-proof.ts";
import { type Hash, leafHash, type Tree } from "../tlog/tree.ts";
import { type TreeHead, verifyInclusion } from "../tlog/tree-verify.ts";

interface LoggedRecord {
  readonly recordId: RecordId;
  readonly leafIndex: number;
  readonly recordedAt: string;
  readonly leaf: Uint8Array;
  readonly opening: Uint8Array;
  readonly record: Uint8Array;
}

/** Records of one write, in order; the genesis before `firstLeafIndex` if there is one. */
interface LoggedBatch {
  readonly firstLeafIndex: number;
  readonly recordedAt: string;
  readonly entries: readonly (Omit<LoggedRecord, "recordedAt"> & { readonly leafHash: Hash })[];
}

/**
 * The material of a receipt: the record, and its audit path in the tree whose size and root are `stored`. Throws if the
 * path does not lead to the root, because a tile is damaged or missing.
 */
export function committedRecord(logged: LoggedRecord, tree: Tree, stored: TreeHead): CommittedRecord {
  const { leafIndex, leaf, recordedAt } = logged;
  const path = tree.inclusionProof(leafIndex);
  const hash = leafHash(leaf);
  if (!verifyInclusion(hash, leafIndex, stored.size, stored.root, path)) throw new Error("a tile is damaged");
  return toCommitted(logged, recordedAt, hash, formatPath(path), stored);
}

/** The batch's own records, without the genesis. */
export function committedRecords(
  { entries, firstLeafIndex, recordedAt }: LoggedBatch,
  tree: Tree,
  log: LogState,
): CommittedRecord[] {
  const stored: TreeHead = { size: log.size, root: log.root };
  const own = entries.filter(({ leafIndex }) => leafIndex >= firstLeafIndex);
  const paths = formatPaths(tree, firstLeafIndex);
  return own.map((entry, position) =>
    toCommitted(entry, recordedAt, entry.leafHash, paths[position] as string, stored),
  );
}

function toCommitted(
  { recordId, leafIndex, leaf, opening, record }: Omit<LoggedRecord, "recordedAt">,
  recordedAt: string,
  hash: Hash,
  path: string,
  tree: TreeHead,
): CommittedRecord {
  return {
    recordId,
    leafIndex,
    recordedAt,
    tree,
    leafHash: formatBase64(hash),
    path,
    leaf: formatBase64(leaf),
    opening: formatBase64(opening),
    record: formatBase64(record),
  };
}

export function shownOnly(
  results: BatchResult["results"],
  shown: readonly ShownOfRecord[] | undefined,
): BatchResult["results"] {
  if (shown === undefined) return results;
  return results.map((result, i) => {
    if (typeof result === "string" || shown[i] === "all") return result;
    const { leaf: _leaf, opening, record: _record, ...place } = result;
    return shown[i] === "opening" && opening !== undefined ? { ...place, opening } : place;
  });
}
