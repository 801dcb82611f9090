/** One proof for the records of a whole call. */
import { formatBase64 } from "../base/text-forms.ts";
import type { Ledger, Receipt } from "../ledger/ports/ledger.ts";
import { checkpointOfProof } from "../ledger/tlog/tlog-proof.ts";

/** Shows that a tree of the log holds all of the records, wherever they stand in it. */
export interface RangeProof {
  readonly logOrigin: string;
  readonly treeSize: number;
  /** The signed checkpoint, verbatim. */
  readonly checkpoint: string;
  /** As `Ledger.multiProof` gives them, in base64. */
  readonly nodes: readonly string[];
}

/** What that needs of the ledger. */
export type ProvingLedger = Pick<Ledger, "multiProof">;

/**
 * Proves records of one tenant in the largest of their trees. What a retry was given from earlier, or a commit before
 * the last had, is in that tree as well: logs only grow.
 *
 * @returns undefined where there are none
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
