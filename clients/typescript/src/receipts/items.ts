/** Whether a record is the one of an item of a bulk call or stream: what was asked, and what its result says. */
import {
  create,
  type DescMessage,
  type JsonObject,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
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
  PlanKeyAccessRequestSchema,
  PlanProtectionRequestSchema,
  PolicyDecisionSchema,
  ProtectionDecisionSchema,
  ResolvePolicyRequestSchema,
} from "../../../../gen/platform/sdk/v1/protection_pb.ts";
import { RegisterArtifactRequestSchema, RegistrationSchema } from "../../../../gen/platform/sdk/v1/registration_pb.ts";
import { toRouteJson } from "../json-spelling.ts";
import { objectAt, requireRecorded, type Said } from "./answer.ts";
import { ReceiptError } from "./note.ts";

const kinds = {
  "platform.bulk.v1.ProtectionPlanItem": {
    route: "protection-plan",
    kind: "decision",
    asked: PlanProtectionRequestSchema,
    result: ProtectionDecisionSchema,
  },
  "platform.bulk.v1.PolicyResolutionItem": {
    route: "policy-resolve",
    kind: "decision",
    asked: ResolvePolicyRequestSchema,
    result: PolicyDecisionSchema,
  },
  "platform.bulk.v1.KeyAccessPlanItem": {
    route: "key-access-plan",
    kind: "decision",
    asked: PlanKeyAccessRequestSchema,
    result: KeyAccessDecisionSchema,
  },
  "platform.bulk.v1.EventResult": {
    route: "evidence",
    kind: "evidence",
    asked: RecordEvidenceRequestSchema,
    result: IngestionSchema,
  },
  "platform.bulk.v1.RegistrationResult": {
    route: "artifact-register",
    kind: "registration",
    asked: RegisterArtifactRequestSchema,
    result: RegistrationSchema,
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

export function receiptOfItem(item: RecordedItem): Receipt | undefined {
  return resultOf(item)?.receipt;
}

/**
 * Throws a ReceiptError where the receipt is not the item's.
 *
 * @param record as a whole receipt shows it; absent of a brief one
 * @param caller of the answer; absent where it names none
 */
export function requireAnswersItem<Item extends RecordedItem>(
  item: Item,
  asked: AskedOf<Item>,
  recordId: string,
  record: JsonObject | undefined,
  caller?: Caller,
): void {
  const { route, kind, asked: askedDesc, result: resultDesc } = kinds[item.$typeName];
  const result = resultOf(item);
  if (result === undefined) throw new ReceiptError("the item was not answered");
  const json = (desc: DescMessage, value: unknown) =>
    toRouteJson(desc, create(desc, value as MessageInitShape<typeof desc>) as MessageShape<typeof desc>);
  const request = json(askedDesc, asked);
  const [workload, resource] = [objectAt(request, "workload"), objectAt(request, "resource")];
  const said: Said = {
    route,
    kind,
    result: json(resultDesc, result),
    summary: {
      ...(request.operation !== undefined && { operation: request.operation }),
      ...(request.event_type !== undefined && { event_type: request.event_type }),
      workload_application: workload.application ?? null,
      resource_kind: resource.kind ?? null,
      resource_id: resource.id ?? null,
    },
    ...(caller !== undefined && { caller: json(CallerSchema, caller) }),
  };
  requireRecorded(said, recordId, record);
}
