import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import {
  type EvidenceService,
  type RecordEvidenceRequest,
  RecordEvidenceRequestSchema,
} from "../../../gen/platform/sdk/v1/evidence_pb.ts";
import type { Evidence } from "../../domain/evidence.ts";
import type { EvidenceRequest } from "../../domain/requests.ts";
import { toNormalForm } from "../codec/normal-form.ts";
import { artifactKind, artifactProfile, evidenceEventType } from "./enums.ts";
import { envelope, forMessage, identityOf, withReceipt } from "./messages.ts";

/** The evidence service over its domain. `service` is the name in every answer. */
export function createEvidenceService(service: string, evidence: Evidence): ServiceImpl<typeof EvidenceService> {
  return {
    recordEvidence: (request, context) => recordEvidence(service, evidence, request, context),
  };
}

export function evidenceRequest(message: RecordEvidenceRequest): EvidenceRequest {
  return toNormalForm<RecordEvidenceRequest, EvidenceRequest>(RecordEvidenceRequestSchema, message);
}

async function recordEvidence(
  service: string,
  evidence: Evidence,
  message: RecordEvidenceRequest,
  context: HandlerContext,
) {
  const identity = identityOf(context);
  const answer = forMessage(await evidence.record(identity, evidenceRequest(message)));
  const { requestSummary: summary } = answer;
  return {
    ...envelope(service, identity.caller),
    ...answer,
    ingestion: withReceipt(context, answer.ingestion),
    requestSummary: {
      ...summary,
      eventType: evidenceEventType[summary.eventType],
      artifactKind: summary.artifactKind && artifactKind[summary.artifactKind],
      artifactProfile: summary.artifactProfile && artifactProfile[summary.artifactProfile],
    },
  };
}
