/** Messages that several answers contain, built complete so that protobuf-es does not copy them. */
import type { Message } from "@bufbuild/protobuf";
import type { GenEnum } from "@bufbuild/protobuf/codegenv2";
import type { HandlerContext } from "@connectrpc/connect";
import {
  ArtifactKindSchema,
  ArtifactProfileSchema,
  type Caller as CallerMessage,
  EvidenceEventTypeSchema,
  KeyAccessOperationSchema,
  type KeyTransport as KeyTransportMessage,
  type PlatformDomain as PlatformDomainMessage,
  ProtectionOperationSchema,
  type Receipt as ReceiptMessage,
} from "../../../gen/platform/sdk/v1/common_pb.ts";
import { AuthModeSchema } from "../../../gen/platform/sdk/v1/discovery_pb.ts";
import type { Obligation as ObligationMessage } from "../../../gen/platform/sdk/v1/protection_pb.ts";
import type { Caller } from "../../base/caller.ts";
import { rememberedBy } from "../../base/remembered.ts";
import {
  artifactKinds,
  artifactProfiles,
  authModes,
  evidenceEventTypes,
  keyAccessOperations,
  protectionOperations,
} from "../../base/vocabulary.ts";
import type { DecisionMembers } from "../../domain/answer.ts";
import type { Decided } from "../../domain/decision.ts";
import type { PlatformDomain } from "../../domain/platform-domains.ts";
import type { CallIdentity } from "../../domain/record.ts";
import { type Call, callerOf, callOf, type ReceiptDetail } from "../calls/call.ts";
import { enumNames } from "../codec/normal-form.ts";

export function keyTransportMessage(transport: Decided["guidance"]["key_transport"]): KeyTransportMessage | undefined {
  if (transport === undefined) return undefined;
  return {
    $typeName: "platform.sdk.v1.KeyTransport",
    mode: transport.mode,
    keyMaterialOrigin: transport.key_material_origin,
    stableKeyReferencePreferred: transport.stable_key_reference_preferred,
    rawKeyDeliveryForbidden: transport.raw_key_delivery_forbidden,
    publicKeyDistribution: transport.public_key_distribution,
    exchangeAlgorithm: transport.exchange_algorithm,
    tdfKey: transport.tdf_key && {
      $typeName: "platform.sdk.v1.TdfKey",
      url: transport.tdf_key.url,
      kid: transport.tdf_key.kid,
      algorithm: transport.tdf_key.algorithm,
      attributeFqns: [...transport.tdf_key.attribute_fqns],
    },
  };
}

export function obligationMessages(obligations: DecisionMembers["obligations"]): ObligationMessage[] {
  return obligations.map(({ id, parameters }) => ({
    $typeName: "platform.sdk.v1.Obligation",
    id,
    parameters: { ...parameters },
  }));
}

/** Built once for each list: consecutive answers carry the same one. */
export const platformDomainMessages = rememberedBy((domains: readonly PlatformDomain[]): PlatformDomainMessage[] => {
  const $typeName = "platform.sdk.v1.PlatformDomain";
  return domains.map(({ domain, configured, reason }) => ({ $typeName, domain, configured, reason }));
});

type Receipt = DecisionMembers["receipt"];

/** Returns the member with its receipt as a message, in the detail that the caller asked for. */
export function withReceipt<Member extends { receipt: Receipt }>(context: HandlerContext, member: Member) {
  return { ...member, receipt: receiptMessage(context, member.receipt) };
}

/** Default: brief for items of bulk calls, full for others. */
export function receiptDetailOf({ items, receiptDetail }: Call): ReceiptDetail {
  return receiptDetail ?? (items === undefined ? "full" : "brief");
}

/** Returns the receipt in the detail that the caller asked for. */
export function receiptMessage(context: HandlerContext, receipt: Receipt): ReceiptMessage | undefined {
  const receiptDetail = receiptDetailOf(callOf(context));
  if (receiptDetail === "none" || receiptDetail === "range") return undefined;
  const isFull = receiptDetail !== "brief";
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
    cose: receiptDetail === "cose" ? receipt.cose() : undefined,
  };
}

/** The members that every answer begins with (specification, section 2.3), and the caller. */
interface Envelope {
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

/** Init shapes of protobuf-es have mutable arrays; the domain's are readonly. */
type Mutable<T> = T extends string | number | boolean | bigint | undefined | Message | (() => unknown)
  ? T
  : { -readonly [Key in keyof T]: Mutable<T[Key]> };

/** Casts the domain's answer for a message that is only encoded. */
export function forMessage<T>(value: T): Mutable<T> {
  return value as Mutable<T>;
}

// Maps the domain's words to the numbers of enumerations in the protobuf definitions.

export const artifactKind = numbers(ArtifactKindSchema, artifactKinds);
export const artifactProfile = numbers(ArtifactProfileSchema, artifactProfiles);
export const authMode = numbers(AuthModeSchema, authModes);
export const evidenceEventType = numbers(EvidenceEventTypeSchema, evidenceEventTypes);
export const keyAccessOperation = numbers(KeyAccessOperationSchema, keyAccessOperations);
export const protectionOperation = numbers(ProtectionOperationSchema, protectionOperations);

/** Throws at start-up if words and definition differ. */
function numbers<Word extends string, Value extends number>(
  desc: GenEnum<Value>,
  words: readonly Word[],
): Readonly<Record<Word, Value>> {
  const byName = new Map(
    [...enumNames(desc)].filter(([number]) => number !== 0).map(([number, name]) => [name, number]),
  );
  const differ = byName.size !== words.length || words.some((word) => !byName.has(word));
  if (differ) throw new Error(`${desc} is not the enumeration of the specification`);
  return Object.fromEntries(byName) as Record<Word, Value>;
}
