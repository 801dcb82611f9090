/** Answer of `evidence`. An event is never lost: it is recorded as sent, whether or not its citation matches. */
import type { Violation } from "../base/errors.ts";
import { isZeroTime, parseTimestamp } from "../base/text-forms.ts";
import { eventOutcome } from "../base/vocabulary.ts";
import { cidWarnings, citationWarnings, digestWarnings, plaintextTransport, warnings } from "./answer.ts";
import { type Citation, cite } from "./citation.ts";
import { type DomainDependencies, refuseViolations, unsupported } from "./deployment.ts";
import { platformDomains } from "./platform-domains.ts";
import { appendOnce, type CallIdentity } from "./record.ts";
import { type EvidenceRequest, summarize } from "./requests.ts";

const futureToleranceMs = 5 * 60_000;

/** Members that an event may carry; none of them is content. */
const sendOnly = [
  "event_type",
  "workload",
  "resource",
  "artifact_profile",
  "artifact_digest",
  "artifact_cid",
  "decision_id",
  "outcome",
  "occurred_at",
] as const;

export type EvidenceAnswer = Awaited<ReturnType<typeof recordEvidence>>;

/**
 * Records the event. Resolves when it is durable. The same event under the same idempotency key is recorded once.
 *
 * @throws ServiceError `idempotency_conflict`, `invalid_request` if `occurred_at` is not an RFC 3339 timestamp or the
 *   profile is not supported, `store_unavailable`
 */
export async function recordEvidence(dependencies: DomainDependencies, call: CallIdentity, sent: EvidenceRequest) {
  const { deployment, live, clock, observeEvidence } = dependencies;
  const occurredMs = sent.occurred_at === undefined ? undefined : parseTimestamp(sent.occurred_at);
  refuseViolations([...unsupported(deployment, sent), ...occurredAtViolations(sent.occurred_at)]);
  const request = withoutZeroTime(sent, occurredMs);
  const isInFuture = occurredMs !== undefined && occurredMs - clock.now() > futureToleranceMs;
  const citation = await cite(dependencies, call.caller, { ...request, operation: request.event_type }, call.span);
  const outcome = { accepted: true, citation: citation.result };
  const correlateBy = correlations(request, citation);
  const prepared = {
    requestSummary: summary(request),
    ingestion: {
      accepted: true,
      requiredScopes: deployment.scopes.required("evidence"),
      plaintextTransport,
      sendOnly,
      /** Members of this event that link it to other records: those present, the decision only if it matches. */
      correlateBy,
    },
    platformDomains: platformDomains(live, call.caller.tenantId),
    warnings: [
      ...digestWarnings("artifact_digest", request.artifact_digest),
      ...cidWarnings("artifact_cid", request.artifact_cid),
      ...cidWarnings("artifact_merkle_root_cid", request.artifact_merkle_root_cid),
      ...(isInFuture ? [warnings.occurredInFuture] : []),
      ...(eventOutcome(request.outcome || "completed") === "unknown" ? [warnings.unknownOutcome] : []),
      ...citationWarnings(citation.result),
      ...(correlateBy.some((member) => member !== "resource.id") ? [] : [warnings.noArtifactIdentity]),
    ],
  };
  const recorded = { kind: "evidence", call, route: "evidence", request, outcome } as const;
  const { answer, receipt } = await appendOnce(dependencies, { ...recorded, payload: request, answer: prepared });
  observeEvidence?.(call.caller.tenantId, citation.result === "matched");
  return { ...answer, ingestion: { ...answer.ingestion, receipt } };
}

/** Violations of the member `occurred_at`. */
export function occurredAtViolations(occurredAt: string | undefined): readonly Violation[] {
  if (occurredAt === undefined || parseTimestamp(occurredAt) !== undefined) return [];
  return [{ field: "occurred_at", rule: "string.rfc3339", message: "must be an RFC 3339 timestamp" }];
}

/** Removes the zero time, which callers send for an absent one. */
function withoutZeroTime(sent: EvidenceRequest, occurredMs: number | undefined): EvidenceRequest {
  if (occurredMs === undefined || !isZeroTime(occurredMs)) return sent;
  const { occurred_at: _, ...others } = sent;
  return others;
}

function correlations(request: EvidenceRequest, citation: Citation): readonly string[] {
  const artifact = ["artifact_digest", "artifact_cid", "artifact_merkle_root_cid"] as const;
  return [
    ...(citation.result === "matched" ? ["decision_id"] : []),
    ...artifact.filter((member) => request[member] !== undefined),
    ...(request.resource.id === undefined ? [] : ["resource.id"]),
  ];
}

function summary(request: EvidenceRequest) {
  return {
    ...summarize(request),
    eventType: request.event_type,
    artifactKind: request.artifact_kind,
    artifactProfile: request.artifact_profile,
    artifactDigestPresent: request.artifact_digest !== undefined,
    artifactCid: request.artifact_cid,
    artifactMerkleRootCid: request.artifact_merkle_root_cid,
    decisionIdPresent: request.decision_id !== undefined,
    outcome: request.outcome,
    occurredAt: request.occurred_at,
  };
}
