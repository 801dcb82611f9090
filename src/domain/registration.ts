/** Answer of `artifact-register`. */
import { newRecordId } from "../base/ids.ts";
import type { ArtifactKind, ArtifactProfile, ProtectionOperation } from "../base/vocabulary.ts";
import { registeredNames } from "../ledger/artifacts/artifact-names.ts";
import type { Receipt } from "../ledger/ports/ledger.ts";
import type { AnswerTail } from "./answer.ts";
import { stripLocator } from "./artifact-locator.ts";
import { type DerivedArtifact, deriveArtifact } from "./artifact-object.ts";
import { type Citation, cite } from "./citation.ts";
import type { DomainDependencies } from "./deployment.ts";
import { appendOnce } from "./idempotency.ts";
import { platformDomains } from "./platform-domains.ts";
import type { ArtifactHasher } from "./ports.ts";
import { type CallIdentity, newRecord } from "./record.ts";
import { registeredBefore } from "./registered.ts";
import { type RegistrationRequest, type RequestSummary, summarize } from "./requests.ts";
import { keyReferenceViolations, operationViolations, profileViolations, refuseViolations } from "./support.ts";
import { cidWarnings, citationWarnings, digestWarnings, warnings } from "./warnings.ts";

export interface RegistrationAnswer extends AnswerTail {
  readonly requestSummary: RequestSummary & {
    readonly operation: ProtectionOperation;
    readonly artifactKind?: ArtifactKind | undefined;
    readonly artifactProfile: ArtifactProfile;
    readonly artifactDigest: string;
    /** Derived from the object if one was sent, else as given. */
    readonly artifactCid?: string | undefined;
    readonly artifactMerkleRootCid?: string | undefined;
    readonly artifactLocatorPresent: boolean;
    readonly decisionIdPresent: boolean;
    readonly keyReferencePresent: boolean;
  };
  readonly registration: {
    /** False if the cited decision does not match or denied. */
    readonly accepted: boolean;
    readonly requiredScopes: readonly string[];
    readonly artifactTransport: "metadata_only";
    readonly sendPlaintextToPlatform: false;
    /** What was done; empty if the registration is not accepted. */
    readonly catalogActions: readonly string[];
    readonly evidenceExpected: readonly string[];
    readonly receipt: Receipt;
  };
}

/** The answer before the registration is recorded. */
type Unreceipted = Omit<RegistrationAnswer, "registration"> & {
  readonly registration: Omit<RegistrationAnswer["registration"], "receipt">;
};

export interface RegistrationDependencies extends DomainDependencies {
  readonly hasher: ArtifactHasher;
}

export interface Registrations {
  /**
   * Registers. Resolves when the record is durable, even if it is not accepted. The same registration under the same
   * idempotency key is recorded once.
   *
   * @param request with the locator as sent
   * @param objectBase64 the artifact's bytes, which are hashed and dropped
   * @param signal ends the hashing
   * @throws ServiceError `idempotency_conflict`, `invalid_request`, `overloaded` (too much to hash),
   *   `store_unavailable`
   */
  register(
    call: CallIdentity,
    request: RegistrationRequest,
    objectBase64: string | undefined,
    signal: AbortSignal,
  ): Promise<RegistrationAnswer>;
}

export function createRegistrations(dependencies: RegistrationDependencies): Registrations {
  const { deployment, live, ledger, hasher, clock, random } = dependencies;
  const rules = { ledger, maxAgeSeconds: deployment.decisionMaxAgeSeconds };
  return {
    async register(call, sent, objectBase64, signal) {
      refuseViolations([
        ...operationViolations(deployment, sent.operation),
        ...profileViolations(deployment, "artifact_profile", sent.artifact_profile),
        ...keyReferenceViolations(deployment, sent.key_reference),
      ]);
      const { tenantId } = call.caller;
      const derived =
        objectBase64 === undefined ? undefined : await deriveArtifact(hasher, tenantId, sent, objectBase64, signal);
      const request = withSafeLocator(sent);
      const artifact_cid = derived?.cid ?? sent.artifact_cid;
      const names = registeredNames(request, { artifact_cid });
      const [citation, before] = await Promise.all([
        cite({ ...rules, nowMs: clock.now() }, call.caller, sent, call.span),
        registeredBefore(ledger, call, names),
      ]);
      const rewraps = names.filter((name) => citation.rewraps?.includes(name));
      const matched = citation.result === "matched";
      const isOutranked = isAccepted(citation) && !before.every((one) => one({ ...call.caller, matched, rewraps }));
      const outcome = {
        accepted: isAccepted(citation),
        artifact_cid,
        artifact_size_bytes: derived?.sizeBytes,
        citation: citation.result,
        // Recorded here, because the decision may be erased before it is read.
        rewraps: rewraps.length > 0 ? rewraps : undefined,
      };
      const recordId = newRecordId(clock, random);
      const record = newRecord("registration", recordId, call, "artifact-register", request, outcome);
      const prepared: Unreceipted = {
        requestSummary: summary(sent, derived),
        registration: registration(deployment.scopes.required("artifact-register"), sent, derived, citation),
        platformDomains: platformDomains(live, call.caller.tenantId),
        warnings: [
          ...registrationWarnings(sent, request, derived, citation),
          ...(isOutranked ? [warnings.outranked] : []),
        ],
      };
      // The CID stands for the object.
      const payload = { ...sent, artifact_object: derived?.cid };
      const answering = { call, route: "artifact-register", record, payload, answer: prepared } as const;
      const { answer, receipt } = await appendOnce(ledger, answering);
      return { ...answer, registration: { ...answer.registration, receipt } };
    },
  };
}

function isAccepted({ result }: Citation): boolean {
  return result === "matched" || result === "none";
}

/** The request for the record. */
function withSafeLocator(sent: RegistrationRequest): RegistrationRequest {
  const { artifact_locator, ...others } = sent;
  if (artifact_locator === undefined) return sent;
  const stripped = stripLocator(artifact_locator);
  return stripped === "" ? others : { ...others, artifact_locator: stripped };
}

function summary(
  request: RegistrationRequest,
  derived: DerivedArtifact | undefined,
): RegistrationAnswer["requestSummary"] {
  return {
    ...summarize(request),
    operation: request.operation,
    artifactKind: request.artifact_kind,
    artifactProfile: request.artifact_profile,
    artifactDigest: request.artifact_digest,
    artifactCid: derived?.cid ?? request.artifact_cid,
    artifactMerkleRootCid: request.artifact_merkle_root_cid,
    artifactLocatorPresent: request.artifact_locator !== undefined,
    decisionIdPresent: request.decision_id !== undefined,
    keyReferencePresent: request.key_reference !== undefined,
  };
}

function registration(
  requiredScopes: readonly string[],
  request: RegistrationRequest,
  derived: DerivedArtifact | undefined,
  citation: Citation,
): Unreceipted["registration"] {
  const accepted = isAccepted(citation);
  const actions = [
    "record_artifact_metadata",
    ...(derived === undefined ? [] : ["derive_artifact_cid"]),
    ...(citation.result === "matched" ? ["link_decision"] : []),
  ];
  return {
    accepted,
    requiredScopes,
    artifactTransport: "metadata_only",
    sendPlaintextToPlatform: false,
    catalogActions: accepted ? actions : [],
    evidenceExpected: accepted ? (citation.evidenceExpected ?? [request.operation]) : ["deny"],
  };
}

function registrationWarnings(
  sent: RegistrationRequest,
  recorded: RegistrationRequest,
  derived: DerivedArtifact | undefined,
  citation: Citation,
): readonly string[] {
  const { artifact_cid, artifact_merkle_root_cid } = sent;
  return [
    ...digestWarnings("artifact_digest", sent.artifact_digest),
    ...(derived?.warnings ?? cidWarnings("artifact_cid", artifact_cid)),
    ...cidWarnings("artifact_merkle_root_cid", artifact_merkle_root_cid),
    ...(sent.artifact_locator === recorded.artifact_locator ? [] : [warnings.locatorStripped]),
    ...citationWarnings(citation.result),
  ];
}
