/**
 * Messages that several answers hold. They are written whole, with the name of their type, so that nothing has to be
 * completed or copied when an answer is made of them.
 */

import type { Message } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import type {
  Caller as CallerMessage,
  KeyTransport as KeyTransportMessage,
  PlatformDomain as PlatformDomainMessage,
  Receipt as ReceiptMessage,
} from "../../../gen/platform/sdk/v1/common_pb.ts";
import type { Obligation as ObligationMessage } from "../../../gen/platform/sdk/v1/protection_pb.ts";
import type { Caller } from "../../base/caller.ts";
import type { DecisionMembers, KeyTransport } from "../../domain/answer.ts";
import type { PlatformDomain } from "../../domain/platform-domains.ts";
import type { CallIdentity } from "../../domain/record.ts";
import { type Call, callerOf, callOf, type ReceiptDetail } from "../calls/call.ts";

export function keyTransportMessage(transport: KeyTransport | undefined): KeyTransportMessage | undefined {
  if (transport === undefined) return undefined;
  return {
    $typeName: "platform.sdk.v1.KeyTransport",
    mode: transport.mode,
    keyMaterialOrigin: transport.keyMaterialOrigin,
    stableKeyReferencePreferred: transport.stableKeyReferencePreferred,
    rawKeyDeliveryForbidden: transport.rawKeyDeliveryForbidden,
    publicKeyDistribution: transport.publicKeyDistribution,
    exchangeAlgorithm: transport.exchangeAlgorithm,
  };
}

/** Most decisions have none. */
export function obligationMessages(obligations: DecisionMembers["obligations"]): ObligationMessage[] {
  return obligations.map(({ id, parameters }) => ({
    $typeName: "platform.sdk.v1.Obligation",
    id,
    parameters: { ...parameters },
  }));
}

const messages = new WeakMap<readonly PlatformDomain[], PlatformDomainMessage[]>();

/** Made once for each list: one answer after the other carries the same. */
export function platformDomainMessages(domains: readonly PlatformDomain[]): PlatformDomainMessage[] {
  let made = messages.get(domains);
  if (made === undefined) {
    const $typeName = "platform.sdk.v1.PlatformDomain";
    made = domains.map(({ domain, configured, reason }) => ({ $typeName, domain, configured, reason }));
    messages.set(domains, made);
  }
  return made;
}

type Receipt = DecisionMembers["receipt"];

/** The member with its receipt as the message has it, and as much of it as the caller asked for. */
export function withReceipt<Member extends { receipt: Receipt }>(context: HandlerContext, member: Member) {
  return { ...member, receipt: receiptMessage(context, member.receipt) };
}

/** Receipts of one of many are brief unless the caller says so. */
export function receiptDetailOf({ items, receiptDetail }: Call): ReceiptDetail {
  return receiptDetail ?? (items === undefined ? "full" : "brief");
}

/** As much of the receipt as the caller asked for. */
export function receiptMessage(context: HandlerContext, receipt: Receipt): ReceiptMessage | undefined {
  const receiptDetail = receiptDetailOf(callOf(context));
  if (receiptDetail === "none" || receiptDetail === "range") return undefined;
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

/** The header that every answer begins with (specification, section 2.3), and who is calling. */
export interface Envelope {
  readonly service: string;
  readonly status: "ready" | "ok";
  readonly caller: CallerMessage;
}

export function envelope(service: string, caller: Caller, status: Envelope["status"] = "ready"): Envelope {
  const { tenantId, principalId, subject, authSource, scopes } = caller;
  const $typeName = "platform.sdk.v1.Caller";
  const message = { $typeName, tenantId, principalId, subject, authSource, scopes: forMessage(scopes) } as const;
  return { service, status, caller: message };
}

export function identityOf(context: HandlerContext): CallIdentity {
  const call = callOf(context);
  const { requestId, idempotencyKey, span } = call;
  const onDecided: CallIdentity["onDecided"] = (made) => {
    call.decision = made;
  };
  return { caller: callerOf(context), requestId, idempotencyKey, signal: context.signal, span, onDecided };
}

/** Init shapes of protobuf-es want arrays that may be written to; the domain's may not. */
export type Mutable<T> = T extends string | number | boolean | bigint | undefined | Message
  ? T
  : { -readonly [Key in keyof T]: Mutable<T[Key]> };

/** Gives the domain's answer to the message, which copies nothing and is only encoded. */
export function forMessage<T>(value: T): Mutable<T> {
  return value as Mutable<T>;
}
