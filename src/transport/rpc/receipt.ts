import type { HandlerContext } from "@connectrpc/connect";
import type { Receipt as ReceiptMessage } from "../../../gen/platform/sdk/v1/common_pb.ts";
import type { DecisionMembers } from "../../domain/answer.ts";
import { callOf } from "../calls/call.ts";

type Receipt = DecisionMembers["receipt"];

/** The member with its receipt as the message has it, and as much of it as the caller asked for. */
export function withReceipt<Member extends { receipt: Receipt }>(context: HandlerContext, member: Member) {
  return { ...member, receipt: receiptMessage(context, member.receipt) };
}

/** As much of the receipt as the caller asked for. */
export function receiptMessage(context: HandlerContext, receipt: Receipt): ReceiptMessage | undefined {
  const { receiptDetail = "full" } = callOf(context);
  if (receiptDetail === "none") return undefined;
  const isFull = receiptDetail === "full";
  return {
    $typeName: "platform.sdk.v1.Receipt",
    recordId: receipt.recordId,
    logOrigin: receipt.logOrigin,
    leafIndex: BigInt(receipt.leafIndex),
    treeSize: BigInt(receipt.treeSize),
    leafHash: receipt.leafHash,
    proof: receipt.proof,
    leaf: isFull ? receipt.leaf : undefined,
    opening: isFull ? receipt.opening : undefined,
    record: isFull ? receipt.record : undefined,
  };
}
