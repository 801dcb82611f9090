/** Whether a record is the one of an item of a bulk call or stream: what was asked, and what its result says. */
import type { DescMessage, JsonObject, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { ItemOutcome } from "../../../../gen/platform/bulk/v1/common_pb.ts";
import {
  type KeyAccessPlanItem,
  KeyAccessPlanItemSchema,
  type PlanKeyAccessesResponse,
  type PlanProtectionsResponse,
  type PolicyResolutionItem,
  PolicyResolutionItemSchema,
  type ProtectionPlanItem,
  ProtectionPlanItemSchema,
  type ResolvePoliciesResponse,
} from "../../../../gen/platform/bulk/v1/decisions_pb.ts";
import {
  type EventResult,
  EventResultSchema,
  type RecordEventsResponse,
  type RegisterArtifactsResponse,
  type RegistrationResult,
  RegistrationResultSchema,
} from "../../../../gen/platform/bulk/v1/records_pb.ts";
import { type Caller, CallerSchema, type Receipt } from "../../../../gen/platform/sdk/v1/common_pb.ts";
import { RecordEvidenceRequestSchema } from "../../../../gen/platform/sdk/v1/evidence_pb.ts";
import {
  PlanKeyAccessRequestSchema,
  PlanProtectionRequestSchema,
  ResolvePolicyRequestSchema,
} from "../../../../gen/platform/sdk/v1/protection_pb.ts";
import { RegisterArtifactRequestSchema } from "../../../../gen/platform/sdk/v1/registration_pb.ts";
import { toRouteJson } from "../json-spelling.ts";
import { type CallKnowledge, requireAsked, requireCall, requireRecorded } from "./answer.ts";
import { ReceiptError } from "./note.ts";

const kinds = {
  "platform.bulk.v1.ProtectionPlanItem": {
    route: "protection-plan",
    asked: PlanProtectionRequestSchema,
    item: ProtectionPlanItemSchema,
  },
  "platform.bulk.v1.PolicyResolutionItem": {
    route: "policy-resolve",
    asked: ResolvePolicyRequestSchema,
    item: PolicyResolutionItemSchema,
  },
  "platform.bulk.v1.KeyAccessPlanItem": {
    route: "key-access-plan",
    asked: PlanKeyAccessRequestSchema,
    item: KeyAccessPlanItemSchema,
  },
  "platform.bulk.v1.EventResult": {
    route: "evidence",
    asked: RecordEvidenceRequestSchema,
    item: EventResultSchema,
  },
  "platform.bulk.v1.RegistrationResult": {
    route: "artifact-register",
    asked: RegisterArtifactRequestSchema,
    item: RegistrationResultSchema,
  },
} as const;

/** An item of the answer to a bulk call, or the result of one on a stream. */
export type RecordedItem =
  | ProtectionPlanItem
  | PolicyResolutionItem
  | KeyAccessPlanItem
  | EventResult
  | RegistrationResult;

/** What an item asked: the request of its single call. */
export type AskedOf<Item extends RecordedItem> = MessageInitShape<(typeof kinds)[Item["$typeName"]]["asked"]>;

/** The answer to a bulk call. */
export type BulkAnswer =
  | PlanProtectionsResponse
  | ResolvePoliciesResponse
  | PlanKeyAccessesResponse
  | RecordEventsResponse
  | RegisterArtifactsResponse;

/** The part of an item that has its receipt; undefined where the item was not answered. */
function resultOf(item: RecordedItem): { readonly receipt?: Receipt | undefined } | undefined {
  switch (item.$typeName) {
    case "platform.bulk.v1.EventResult":
      return item.ingestion;
    case "platform.bulk.v1.RegistrationResult":
      return item.registration;
    default:
      return item.decision;
  }
}

export function isWithResult(item: RecordedItem): boolean {
  return resultOf(item) !== undefined;
}

export function receiptOfItem(item: RecordedItem): Receipt | undefined {
  return resultOf(item)?.receipt;
}

/**
 * Throws a ReceiptError where the receipt is not the item's.
 *
 * @param record as a whole receipt shows it; absent of a brief one
 */
export function requireAnswersItem<Item extends RecordedItem>(
  item: Item,
  asked: AskedOf<Item>,
  recordId: string,
  record: JsonObject | undefined,
  { answerCaller, ...knowledge }: ItemKnowledge,
): void {
  const { route, item: itemDesc, asked: askedDesc } = kinds[item.$typeName];
  if (resultOf(item) === undefined || item.outcome !== ItemOutcome.ANSWERED)
    throw new ReceiptError("the item was not answered");
  const said = toRouteJson(itemDesc as DescMessage, item as MessageShape<DescMessage>);
  const isTold = (member: string) =>
    member.startsWith("caller.")
      ? answerCaller !== undefined
      : member !== "status" && !member.startsWith("request_summary.");
  const caller = answerCaller && toRouteJson(CallerSchema, answerCaller);
  requireRecorded({ route, said: { ...said, ...(caller && { caller }) }, isTold }, recordId, record);
  if (record === undefined) return;
  requireAsked(askedDesc as DescMessage, asked as MessageInitShape<DescMessage>, record);
  requireCall(route, record, knowledge);
}

/** What is known of the call of an item. */
export interface ItemKnowledge extends CallKnowledge {
  /** The caller that the bulk answer names; absent on streams, whose results name none. */
  readonly answerCaller?: Caller | undefined;
}
