/** Whether a record is the one of an answer: what the answer says is what was recorded. */
import type { DescMessage, JsonObject, JsonValue, MessageShape } from "@bufbuild/protobuf";
import type { Receipt } from "../../../../gen/platform/sdk/v1/common_pb.ts";
import {
  type RecordEvidenceResponse,
  RecordEvidenceResponseSchema,
} from "../../../../gen/platform/sdk/v1/evidence_pb.ts";
import {
  type PlanKeyAccessResponse,
  PlanKeyAccessResponseSchema,
  type PlanProtectionResponse,
  PlanProtectionResponseSchema,
  type ResolvePolicyResponse,
  ResolvePolicyResponseSchema,
} from "../../../../gen/platform/sdk/v1/protection_pb.ts";
import {
  type RegisterArtifactResponse,
  RegisterArtifactResponseSchema,
} from "../../../../gen/platform/sdk/v1/registration_pb.ts";
import { toRouteJson } from "../json-spelling.ts";
import { ReceiptError } from "./note.ts";
import { canonicalText } from "./record.ts";

/** An answer that comes with a receipt. */
export type RecordedAnswer =
  | PlanProtectionResponse
  | ResolvePolicyResponse
  | PlanKeyAccessResponse
  | RegisterArtifactResponse
  | RecordEvidenceResponse;

const kinds = [
  { desc: PlanProtectionResponseSchema, route: "protection-plan", kind: "decision" },
  { desc: ResolvePolicyResponseSchema, route: "policy-resolve", kind: "decision" },
  { desc: PlanKeyAccessResponseSchema, route: "key-access-plan", kind: "decision" },
  { desc: RegisterArtifactResponseSchema, route: "artifact-register", kind: "registration" },
  { desc: RecordEvidenceResponseSchema, route: "evidence", kind: "evidence" },
] as const;

/** Undefined where it has none. */
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
 * Throws a ReceiptError where the receipt is not the answer's.
 *
 * @param record as a whole receipt shows it; absent of a brief one, which names a decision and nothing else of it
 */
export function requireAnswers(answer: RecordedAnswer, recordId: string, record: JsonObject | undefined): void {
  const found = kinds.find(({ desc }) => desc.typeName === answer.$typeName);
  if (found === undefined) throw new ReceiptError("the answer is of a call that records nothing");
  const { desc, route, kind } = found;
  const said = toRouteJson(desc as DescMessage, answer as MessageShape<DescMessage>);
  const summary = objectAt(said, "request_summary");
  const result = objectAt(said, kind === "evidence" ? "ingestion" : kind);
  requireRecorded({ route, kind, result, summary, caller: objectAt(said, "caller") }, recordId, record);
  if (record === undefined) return;
  const request = objectAt(record, "request");
  const { artifact_cid: cid = request.artifact_cid } = objectAt(record, "outcome");
  // No other answer says it, nor which object it was derived from.
  requireSame([
    ["artifact_digest", summary.artifact_digest, kind === "registration" ? request.artifact_digest : undefined],
    ["artifact_cid", summary.artifact_cid, kind === "decision" ? undefined : cid],
  ]);
}

/** What is said of one record, in the spelling of the JSON routes. */
export interface Said {
  /** Of the single call. */
  readonly route: string;
  readonly kind: "decision" | "registration" | "evidence";
  readonly result: JsonObject;
  /** Of the request, as answers have it. */
  readonly summary: JsonObject;
  /** Absent where nothing is said of the caller. */
  readonly caller?: JsonObject;
}

/** Throws a ReceiptError where the record is another than is said. */
export function requireRecorded(said: Said, recordId: string, record: JsonObject | undefined): void {
  const { route, kind, result, summary, caller } = said;
  const isDecision = kind === "decision";
  if (isDecision && recordId !== result.decision_id) fail("decision_id");
  if (record === undefined) return;
  const [outcome, request] = [objectAt(record, "outcome"), objectAt(record, "request")];
  const [workload, resource] = [objectAt(request, "workload"), objectAt(request, "resource")];
  requireSame([
    ["kind", kind, record.kind],
    ["route", `/v1/sdk/${route}`, record.route],
    ["tenant_id", caller ? caller.tenant_id : record.tenant_id, record.tenant_id],
    ["principal_id", caller ? caller.principal_id : principalOf(record), principalOf(record)],
    ["allow", result.allow, isDecision ? outcome.allow : undefined],
    ["accepted", result.accepted, isDecision ? undefined : outcome.accepted],
    ["policy_revision", result.policy_revision, isDecision ? outcome.policy_revision : undefined],
    // A deployment may keep them to itself.
    ["reasons", result.reasons, isDecision && !isEmpty(result.reasons) ? outcome.reasons : result.reasons],
    ["obligations", result.obligations, isDecision ? (outcome.obligations ?? []) : undefined],
    ["operation", summary.operation, request.operation],
    ["event_type", summary.event_type, request.event_type],
    ["workload_application", summary.workload_application, workload.application],
    ["resource_kind", summary.resource_kind, resource.kind],
    ["resource_id", summary.resource_id, resource.id],
  ]);
}

function principalOf(record: JsonObject): JsonValue | undefined {
  return objectAt(record, "caller").principal_id;
}

function requireSame(
  rows: readonly (readonly [member: string, said: JsonValue | undefined, recorded: JsonValue | undefined])[],
): void {
  for (const [member, said = null, recorded = null] of rows)
    if (canonicalText(said) !== canonicalText(recorded)) fail(member);
}

export function objectAt(value: JsonObject, member: string): JsonObject {
  const inner = value[member];
  return typeof inner === "object" && inner !== null && !Array.isArray(inner) ? inner : {};
}

function isEmpty(value: JsonValue | undefined): boolean {
  return Array.isArray(value) && value.length === 0;
}

function fail(member: string): never {
  throw new ReceiptError(`the receipt is of another ${member} than the answer`);
}
