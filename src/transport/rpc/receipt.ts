import type { HandlerContext } from "@connectrpc/connect";
import type { DecisionMembers } from "../../domain/answer.ts";
import { callOf } from "../call.ts";

type Receipt = DecisionMembers["receipt"];

/** The member with its receipt as the message has it, and as much of it as the caller asked for. */
export function withReceipt<Member extends { receipt: Receipt }>(context: HandlerContext, member: Member) {
  return { ...member, receipt: shown(context, member.receipt) };
}

function shown(context: HandlerContext, { leafIndex, treeSize, leaf, opening, record, ...others }: Receipt) {
  const { receiptDetail = "full" } = callOf(context);
  if (receiptDetail === "none") return undefined;
  const position = { ...others, leafIndex: BigInt(leafIndex), treeSize: BigInt(treeSize) };
  return receiptDetail === "brief" ? position : { ...position, leaf, opening, record };
}
