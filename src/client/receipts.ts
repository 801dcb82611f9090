/** Receipts, checked offline: that the tenant's log holds exactly the record that an answer speaks of, and stays one. */
import type { Receipt } from "../../gen/platform/sdk/v1/common_pb.ts";
import { parseBase64 } from "../base/text-forms.ts";
import { type VerifiedReceipt, verifyReceipt as verify } from "../ledger/record/receipt.ts";
import { verifyConsistency } from "../ledger/tlog/tree-verify.ts";
import { parseTrustedKey } from "../ledger/tlog/trusted-key.ts";

export type { VerifiedReceipt } from "../ledger/record/receipt.ts";

/**
 * Checks a receipt against the key of the tenant's log, which comes from the operator and is never taken from the
 * receipt itself.
 *
 * @param verifierKey C2SP signed-note verifier key, `<origin>+<hash>+<key>`; with `@<size>` behind it where it was
 *   retired and counts for trees of up to so many leaves
 * @throws where the key cannot be read, or the receipt does not show what it says
 */
export function verifyReceipt(receipt: Receipt, verifierKey: string): VerifiedReceipt {
  const verifier = parseTrustedKey(verifierKey);
  if (verifier === undefined) throw new Error("the verifier key cannot be read");
  const { leaf, opening, record } = receipt;
  return verify(
    {
      record_id: receipt.recordId,
      log_origin: receipt.logOrigin,
      leaf_index: Number(receipt.leafIndex),
      tree_size: Number(receipt.treeSize),
      leaf_hash: receipt.leafHash,
      proof: receipt.proof,
      ...(leaf !== undefined && { leaf }),
      ...(opening !== undefined && { opening }),
      ...(record !== undefined && { record }),
    },
    verifier,
  );
}

/**
 * Whether the log of the later receipt holds all that the log of the earlier one held, in the same places (RFC 6962
 * §2.1.2). Both have been verified; false where the proof does not show it.
 *
 * @param proof what the operator listener answers at `/ledger/<log>/consistency` for the tree sizes of the two: a base64
 *   hash a line
 */
export function continues(earlier: VerifiedReceipt, later: VerifiedReceipt, proof: string): boolean {
  const hashes = proof
    .split("\n")
    .filter((line) => line !== "")
    .map(parseBase64);
  if (!hashes.every((hash) => hash !== undefined)) return false;
  const tree = ({ treeSize, root }: VerifiedReceipt) => ({ size: treeSize, root });
  return verifyConsistency(tree(earlier), tree(later), hashes);
}
