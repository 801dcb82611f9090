/** Whether a record belongs to an answer: question, answer, caller and time. */
import type { DescMessage, JsonObject, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { Caller, Receipt } from "../../../../gen/platform/sdk/v1/common_pb.ts";
import {
  RecordEvidenceRequestSchema,
  type RecordEvidenceResponse,
  RecordEvidenceResponseSchema,
} from "../../../../gen/platform/sdk/v1/evidence_pb.ts";
import {
  PlanKeyAccessRequestSchema,
  type PlanKeyAccessResponse,
  PlanKeyAccessResponseSchema,
  PlanProtectionRequestSchema,
  type PlanProtectionResponse,
  PlanProtectionResponseSchema,
  ResolvePolicyRequestSchema,
  type ResolvePolicyResponse,
  ResolvePolicyResponseSchema,
} from "../../../../gen/platform/sdk/v1/protection_pb.ts";
import {
  RegisterArtifactRequestSchema,
  type RegisterArtifactResponse,
  RegisterArtifactResponseSchema,
} from "../../../../gen/platform/sdk/v1/registration_pb.ts";
import { recordRelations } from "../../../../gen/record-relations.ts";
import { toRouteJson } from "../json-spelling.ts";
import { ReceiptError } from "./note.ts";
import {
  answerDifferences,
  callerDifferences,
  isTimely,
  objectOf,
  type RecordedRoute,
  recordedForm,
  requestDifferences,
} from "./relations.ts";

/** An answer with a receipt. */
export type RecordedAnswer =
  | PlanProtectionResponse
  | ResolvePolicyResponse
  | PlanKeyAccessResponse
  | RegisterArtifactResponse
  | RecordEvidenceResponse;

/** For each route: the answer, the request, and the member with the receipt. */
export const recordedCalls = {
  "platform.sdk.v1.PlanProtectionResponse": {
    route: "protection-plan",
    answer: PlanProtectionResponseSchema,
    asked: PlanProtectionRequestSchema,
  },
  "platform.sdk.v1.ResolvePolicyResponse": {
    route: "policy-resolve",
    answer: ResolvePolicyResponseSchema,
    asked: ResolvePolicyRequestSchema,
  },
  "platform.sdk.v1.PlanKeyAccessResponse": {
    route: "key-access-plan",
    answer: PlanKeyAccessResponseSchema,
    asked: PlanKeyAccessRequestSchema,
  },
  "platform.sdk.v1.RegisterArtifactResponse": {
    route: "artifact-register",
    answer: RegisterArtifactResponseSchema,
    asked: RegisterArtifactRequestSchema,
  },
  "platform.sdk.v1.RecordEvidenceResponse": {
    route: "evidence",
    answer: RecordEvidenceResponseSchema,
    asked: RecordEvidenceRequestSchema,
  },
} as const;

/** The request of an answer. */
export type AskedOfAnswer<Answer extends RecordedAnswer> = MessageInitShape<
  (typeof recordedCalls)[Answer["$typeName"]]["asked"]
>;

/** What the caller knows of a call besides its request. */
export interface CallKnowledge {
  /** The caller in `whoami`, or a part of it. Default: not compared. */
  readonly caller?: Partial<Pick<Caller, "tenantId" | "principalId" | "subject" | "authSource">> | undefined;
  /**
   * When the call was first sent, in milliseconds since the Unix epoch. Records more than five minutes older belong to
   * another call. Default: any time up to now.
   */
  readonly sentAtMs?: number | undefined;
}

/** Undefined if it has none. */
export function receiptOf(answer: RecordedAnswer): Receipt | undefined {
  switch (answer.$typeName) {
    case RegisterArtifactResponseSchema.typeName:
      return answer.registration?.receipt;
    case RecordEvidenceResponseSchema.typeName:
      return answer.ingestion?.receipt;
    default:
      return answer.decision?.receipt;
  }
}

/**
 * Throws a ReceiptError if the receipt does not belong to the answer.
 *
 * @param asked undefined if the request was not kept: then only the answer's summary of it is compared
 * @param record from a whole receipt; absent for a brief one, which only names a decision
 */
export function requireAnswers<Answer extends RecordedAnswer>(
  answer: Answer,
  asked: AskedOfAnswer<Answer> | undefined,
  recordId: string,
  record: JsonObject | undefined,
  knowledge: CallKnowledge,
): void {
  const found:
    | { readonly route: RecordedRoute; readonly answer: DescMessage; readonly asked: DescMessage }
    | undefined = recordedCalls[answer.$typeName];
  if (found === undefined) throw new ReceiptError("the answer is of a call that records nothing");
  const said = toRouteJson(found.answer, answer as MessageShape<DescMessage>);
  requireRecorded({ route: found.route, said }, recordId, record);
  if (record === undefined) return;
  if (asked !== undefined) requireAsked(found.asked, asked, record);
  requireCall(found.route, record, knowledge);
}

/** Statements about one record, in the spelling of the JSON routes. */
export interface Said {
  /** Of the single call. */
  readonly route: RecordedRoute;
  readonly said: JsonObject;
  /** Default: the answer is complete. */
  readonly isTold?: (member: string) => boolean;
}

/** Throws a ReceiptError if the record differs from the statements. */
export function requireRecorded({ route, said, isTold }: Said, recordId: string, record: JsonObject | undefined): void {
  const decisionId = objectOf(said.decision).decision_id;
  if (said.decision !== undefined && decisionId !== recordId) fail("decision_id");
  const [member] = record === undefined ? [] : answerDifferences(route, said, record, isTold);
  if (member !== undefined) fail(member);
}

/** Throws a ReceiptError if the record has another question. */
export function requireAsked<Desc extends DescMessage>(
  desc: Desc,
  asked: MessageInitShape<Desc>,
  record: JsonObject,
): void {
  const sent = recordedForm(desc, asked);
  // The client itself adds understood obligations to requests that list none.
  const { left_out_if_empty: added } = recordRelations.request;
  const isAdded = (name: string) => sent[name] === undefined && (added as readonly string[]).includes(name);
  const [member] = requestDifferences(sent, record).filter((name) => !isAdded(name));
  if (member !== undefined) throw new ReceiptError(`the receipt is of another ${member} than was asked`);
}

/** Throws a ReceiptError if the record has another caller or time. */
export function requireCall(
  route: RecordedRoute,
  record: JsonObject,
  { caller, sentAtMs }: CallKnowledge,
  nowMs = Date.now(),
): void {
  if (caller !== undefined) {
    const { tenantId: tenant_id, principalId: principal_id, subject, authSource: auth_source } = caller;
    const known = { tenant_id, principal_id, subject, auth_source };
    const [member] = callerDifferences(route, known, record);
    if (member !== undefined) fail(`caller.${member}`);
  }
  if (!isTimely(record, sentAtMs, nowMs)) throw new ReceiptError("the receipt is of another time than the call");
}

function fail(member: string): never {
  throw new ReceiptError(`the receipt is of another ${member} than the answer`);
}
