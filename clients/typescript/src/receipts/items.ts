/** Whether a record belongs to an item of a bulk call or stream: question and result. */
import { create, type DescMessage, type JsonObject, type MessageInitShape } from "@bufbuild/protobuf";
import type {
  KeyAccessPlanItem,
  PlanKeyAccessesResponse,
  PlanProtectionsResponse,
  PolicyResolutionItem,
  ProtectionPlanItem,
  ResolvePoliciesResponse,
} from "../../../../gen/platform/bulk/v1/decisions_pb.ts";
import type {
  EventResult,
  RecordEventsResponse,
  RegisterArtifactsResponse,
  RegistrationResult,
} from "../../../../gen/platform/bulk/v1/records_pb.ts";
import { type Caller, CallerSchema, type Receipt } from "../../../../gen/platform/sdk/v1/common_pb.ts";
import { IngestionSchema, RecordEvidenceRequestSchema } from "../../../../gen/platform/sdk/v1/evidence_pb.ts";
import {
  KeyAccessDecisionSchema,
  KeyAccessExecutionSchema,
  PlanKeyAccessRequestSchema,
  PlanProtectionRequestSchema,
  PolicyDecisionSchema,
  PolicyHandlingSchema,
  ProtectionDecisionSchema,
  ProtectionExecutionSchema,
  ResolvePolicyRequestSchema,
} from "../../../../gen/platform/sdk/v1/protection_pb.ts";
import { RegisterArtifactRequestSchema, RegistrationSchema } from "../../../../gen/platform/sdk/v1/registration_pb.ts";
import { toRouteJson } from "../json-spelling.ts";
import { type CallKnowledge, requireAsked, requireCall, requireRecorded } from "./answer.ts";
import { ReceiptError } from "./note.ts";

/** For each item: the route and request of its single call, and the parts of its answer. */
const kinds = {
  "platform.bulk.v1.ProtectionPlanItem": {
    route: "protection-plan",
    asked: PlanProtectionRequestSchema,
    parts: { decision: ProtectionDecisionSchema, execution: ProtectionExecutionSchema },
  },
  "platform.bulk.v1.PolicyResolutionItem": {
    route: "policy-resolve",
    asked: ResolvePolicyRequestSchema,
    parts: { decision: PolicyDecisionSchema, handling: PolicyHandlingSchema },
  },
  "platform.bulk.v1.KeyAccessPlanItem": {
    route: "key-access-plan",
    asked: PlanKeyAccessRequestSchema,
    parts: { decision: KeyAccessDecisionSchema, execution: KeyAccessExecutionSchema },
  },
  "platform.bulk.v1.EventResult": {
    route: "evidence",
    asked: RecordEvidenceRequestSchema,
    parts: { ingestion: IngestionSchema },
  },
  "platform.bulk.v1.RegistrationResult": {
    route: "artifact-register",
    asked: RegisterArtifactRequestSchema,
    parts: { registration: RegistrationSchema },
  },
} as const;

/** `ITEM_OUTCOME_ANSWERED`. */
export const answered = 1;

/** An item of the answer to a bulk call, or its result on a stream. */
export type RecordedItem =
  | ProtectionPlanItem
  | PolicyResolutionItem
  | KeyAccessPlanItem
  | EventResult
  | RegistrationResult;

/** The request of an item's single call. */
export type AskedOf<Item extends RecordedItem> = MessageInitShape<(typeof kinds)[Item["$typeName"]]["asked"]>;

/** The answer to a bulk call. */
export type BulkAnswer =
  | PlanProtectionsResponse
  | ResolvePoliciesResponse
  | PlanKeyAccessesResponse
  | RecordEventsResponse
  | RegisterArtifactsResponse;

/** The part of an item with its receipt; undefined if the item was not answered. */
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
 * Throws a ReceiptError if the receipt does not belong to the item.
 *
 * @param record from a whole receipt; absent for a brief one
 */
export function requireAnswersItem<Item extends RecordedItem>(
  item: Item,
  asked: AskedOf<Item>,
  recordId: string,
  record: JsonObject | undefined,
  { answerCaller, ...knowledge }: ItemKnowledge,
): void {
  const { route, parts, asked: askedDesc } = kinds[item.$typeName];
  if (resultOf(item) === undefined || item.outcome !== answered) throw new ReceiptError("the item was not answered");
  const said: JsonObject = {};
  for (const [name, desc] of Object.entries<DescMessage>(parts)) {
    const part = item[name as keyof Item] as MessageInitShape<typeof desc> | undefined;
    if (part !== undefined) said[name] = toRouteJson(desc, create(desc, part));
  }
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

/** What is known of a bulk call. */
export interface BulkKnowledge extends CallKnowledge {
  /** Of the items, in order, as the program gave them; empty for an item without one. Items with one key have one record. */
  readonly idempotencyKeys?: readonly string[];
}

/** What is known of an item's call. */
export interface ItemKnowledge extends CallKnowledge {
  /** The caller in the bulk answer; absent on streams. */
  readonly answerCaller?: Caller | undefined;
}
