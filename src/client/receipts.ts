/** Receipts, checked offline: that the tenant's log holds exactly the record that an answer speaks of. */
import type { Receipt } from "../../gen/platform/sdk/v1/common_pb.ts";
import { parseVerifierKey } from "../ledger/note-keys.ts";
import { type VerifiedReceipt, verifyReceipt as verify } from "../ledger/receipt.ts";

export type { VerifiedReceipt } from "../ledger/receipt.ts";

/**
 * Checks a receipt against the key of the tenant's log, which comes from the operator and is never taken from the
 * receipt itself.
 *
 * @param verifierKey C2SP signed-note verifier key, `<origin>+<hash>+<key>`
 * @throws where the key cannot be read, or the receipt does not show what it says
 */
export function verifyReceipt(receipt: Receipt, verifierKey: string): VerifiedReceipt {
  const verifier = parseVerifierKey(verifierKey);
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
