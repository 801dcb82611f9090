/** One receipt for a whole bulk call, if the caller asks for it. */
import type { HandlerContext } from "@connectrpc/connect";
import type {
  RangeLeaf as RangeLeafMessage,
  RangeReceipt as RangeReceiptMessage,
} from "../../../gen/platform/bulk/v1/common_pb.ts";
import { ServiceError } from "../../base/errors.ts";
import { type DecisionMembers, type ProvingLedger, proveRange } from "../../domain/answer.ts";
import type { ItemResult } from "../../domain/bulk.ts";
import { callOf } from "../calls/call.ts";
import { forMessage } from "./messages.ts";

export type RangedReceipt = DecisionMembers["receipt"];

export interface RangeMembers {
  /** Leaf of each item's record, in order; undefined if it has none. */
  readonly leaves: readonly (RangeLeafMessage | undefined)[];
  readonly receipt: RangeReceiptMessage | undefined;
}

/** Proves the records of the results. All is undefined if the caller did not ask for a range receipt. */
export async function rangeMembers<Answer>(
  context: HandlerContext,
  ledger: ProvingLedger,
  results: readonly ItemResult<Answer>[],
  receiptOf: (answer: Answer) => RangedReceipt,
): Promise<RangeMembers> {
  if (callOf(context).receiptDetail !== "range") return { leaves: [], receipt: undefined };
  const receipts = results.map((result) => (result && "answer" in result ? receiptOf(result.answer) : undefined));
  const proof = await proveRange(
    ledger,
    receipts.filter((receipt) => receipt !== undefined),
  );
  return {
    leaves: receipts.map((receipt) => receipt && leafMessage(receipt)),
    receipt: proof && {
      $typeName: "platform.bulk.v1.RangeReceipt",
      ...forMessage(proof),
      treeSize: BigInt(proof.treeSize),
    },
  };
}

function leafMessage({ recordId, leafIndex, leafHash, opening }: RangedReceipt): RangeLeafMessage {
  if (opening === undefined) throw new ServiceError("internal", "a receipt without its opening");
  return { $typeName: "platform.bulk.v1.RangeLeaf", recordId, leafIndex: BigInt(leafIndex), leafHash, opening };
}
