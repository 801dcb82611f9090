/** One proof for the records of a whole call. */
import { formatBase64 } from "../base/text-forms.ts";
import type { Ledger, Receipt } from "../ledger/ports/ledger.ts";
import { checkpointOfProof } from "../ledger/tlog/tlog-proof.ts";

/** Proves that a tree of the log holds all of the records. */
export interface RangeProof {
  readonly logOrigin: string;
  readonly treeSize: number;
  /** The signed checkpoint, verbatim. */
  readonly checkpoint: string;
  /** From `Ledger.multiProof`, in base64. */
  readonly nodes: readonly string[];
}

export type ProvingLedger = Pick<Ledger, "multiProof">;

/**
 * Proves records of one tenant in the largest of their trees. Records of earlier commits, such as those of a retry, are
 * in that tree as well: logs only grow.
 *
 * @returns undefined if there are none
 * @throws ServiceError `store_unavailable`, `internal`
 */
export async function proveRange(ledger: ProvingLedger, receipts: readonly Receipt[]): Promise<RangeProof | undefined> {
  const [first, ...others] = receipts;
  if (first === undefined) return undefined;
  const newest = others.reduce((most, receipt) => (receipt.treeSize > most.treeSize ? receipt : most), first);
  const { logOrigin, treeSize } = newest;
  const leaves = [...new Set(receipts.map(({ leafIndex }) => leafIndex))].sort((a, b) => a - b);
  const nodes = await ledger.multiProof(logOrigin, treeSize, leaves);
  return { logOrigin, treeSize, checkpoint: checkpointOfProof(newest.proof), nodes: nodes.map(formatBase64) };
}
