/** The platform behind a client: translates between the client's calls and `platform.ts`. */
import { create, type JsonObject, type MessageInitShape } from "@bufbuild/protobuf";
import {
  ArtifactKind,
  ArtifactProfile,
  EvidenceEventType,
  KeyAccessOperation,
  type KeyAccessPlanItem,
  type KeyTransport,
  type Obligation,
  type PlanKeyAccessResponse,
  type PlanProtectionResponse,
  type PlatformClient,
  ProtectionOperation,
  type ProtectionPlanItem,
  type Receipt,
  type ResourceDescriptorSchema,
  WorkloadDescriptorSchema,
} from "./client.ts";
import type {
  Accepted,
  Decision,
  Description,
  EvidenceEvent,
  KeyQuestion,
  Platform,
  ProtectionQuestion,
  Registration,
  Resource,
} from "./platform.ts";

const operations = {
  protect: ProtectionOperation.PROTECT,
  access: ProtectionOperation.ACCESS,
  rewrap: ProtectionOperation.REWRAP,
} as const;
const keyOperations = {
  wrap: KeyAccessOperation.WRAP,
  unwrap: KeyAccessOperation.UNWRAP,
  rewrap: KeyAccessOperation.REWRAP,
} as const;
const profiles = {
  tdf: ArtifactProfile.TDF,
  envelope: ArtifactProfile.ENVELOPE,
  detached_signature: ArtifactProfile.DETACHED_SIGNATURE,
} as const;
const artifactKinds = { data_object: ArtifactKind.DATA_OBJECT, tdf_manifest: ArtifactKind.TDF_MANIFEST } as const;
const eventTypes = {
  protect: EvidenceEventType.PROTECT,
  access: EvidenceEventType.ACCESS,
  rewrap: EvidenceEventType.REWRAP,
  deny: EvidenceEventType.DENY,
} as const;

/** Routes that enforcement calls. */
const usedRoutes = ["protection-plan", "key-access-plan", "artifact-register", "evidence"];

/** Adapts a client, with its retries, tokens and deadlines. */
export function platformOf(client: PlatformClient): Platform {
  return {
    async deployment(signal) {
      const [capabilities, bootstrap, { caller }] = await Promise.all([
        client.discovery.getCapabilities({}, callOf(signal)),
        client.discovery.getBootstrap({}, callOf(signal)),
        client.discovery.whoAmI({}, callOf(signal)),
      ]);
      const held = new Set(capabilities.caller?.scopes);
      const needed = capabilities.routes
        .filter(({ route }) => usedRoutes.some((name) => route.endsWith(`/${name}`)))
        .flatMap(({ requiredScopes }) => requiredScopes);
      return {
        ...(caller !== undefined && { caller: { tenantId: caller.tenantId, principalId: caller.principalId } }),
        plaintextToPlatform: bootstrap.plaintextToPlatform,
        operations: wordsOf(operations, bootstrap.supportedOperations),
        profiles: wordsOf(profiles, bootstrap.supportedArtifactProfiles),
        missingScopes: [...new Set([...capabilities.defaultRequiredScopes, ...needed])].filter(
          (scope) => !held.has(scope),
        ),
      };
    },

    async planProtection(question, signal) {
      return plannedOf(await client.protection.planProtection(planRequestOf(question), callOf(signal)));
    },

    async planKeyAccess(question, signal) {
      return keyAccessOf(await client.protection.planKeyAccess(keyRequestOf(question), callOf(signal)));
    },

    async registerArtifact(registration, idempotencyKey, signal) {
      const request = registrationRequestOf(registration);
      const answer = await client.registration.registerArtifact(request, callOf(signal, idempotencyKey));
      return acceptedOf(answer.registration, answer.warnings);
    },

    async recordEvidence(event, idempotencyKey, signal) {
      const answer = await client.evidence.recordEvidence(eventRequestOf(event), callOf(signal, idempotencyKey));
      return acceptedOf(answer.ingestion, answer.warnings);
    },
  };
}

export function planRequestOf({
  operation,
  preferred_artifact_profile,
  content_size_bytes,
  ...question
}: ProtectionQuestion) {
  return {
    ...describe(question),
    ...aboutArtifact(question),
    operation: operations[operation],
    preferredArtifactProfile: profiles[preferred_artifact_profile],
    understoodObligations: [...question.understood_obligations],
    ...(content_size_bytes !== undefined && { contentSizeBytes: BigInt(content_size_bytes) }),
  };
}

export function keyRequestOf({ operation, artifact_profile, key_reference, ...question }: KeyQuestion) {
  return {
    ...describe(question),
    ...aboutArtifact(question),
    operation: keyOperations[operation],
    artifactProfile: profiles[artifact_profile],
    keyReference: key_reference,
    understoodObligations: [...question.understood_obligations],
  };
}

export function registrationRequestOf(registration: Registration) {
  return {
    ...describe(registration),
    operation: operations[registration.operation],
    artifactKind: artifactKinds[registration.artifact_kind],
    artifactProfile: profiles[registration.artifact_profile],
    artifactDigest: registration.artifact_digest,
    artifactCid: registration.artifact_cid,
    decisionId: registration.decision_id,
    keyReference: registration.key_reference,
    ...(registration.artifact_locator !== undefined && { artifactLocator: registration.artifact_locator }),
  };
}

export function eventRequestOf({ event_type, artifact_kind, artifact_profile, ...event }: EvidenceEvent) {
  return {
    ...describe(event),
    eventType: eventTypes[event_type],
    ...(artifact_kind !== undefined && { artifactKind: artifactKinds[artifact_kind] }),
    ...(artifact_profile !== undefined && { artifactProfile: profiles[artifact_profile] }),
    ...aboutArtifact(event),
    ...(event.decision_id !== undefined && { decisionId: event.decision_id }),
    outcome: event.outcome,
    occurredAt: event.occurred_at,
  };
}

/** The decision in an answer, of a call or of one item. */
export function plannedOf({
  decision,
  execution,
}: Pick<PlanProtectionResponse | ProtectionPlanItem, "decision" | "execution">): Decision {
  return decisionOf(decision, {
    isLocal: execution?.protectLocally === true,
    sendPlaintextToPlatform: execution?.sendPlaintextToPlatform !== false,
    artifactProfile: wordsOf(profiles, [execution?.artifactProfile]).join(),
    ...transportMembers(execution?.keyTransport),
    handlingMode: decision?.handlingMode ?? "",
    library: execution?.localEnforcementLibrary ?? "",
  });
}

export function keyAccessOf({
  decision,
  execution,
}: Pick<PlanKeyAccessResponse | KeyAccessPlanItem, "decision" | "execution">): Decision {
  return decisionOf(decision, {
    isLocal: execution?.localCryptographicOperation === true,
    sendPlaintextToPlatform: execution?.sendPlaintextToPlatform !== false,
    artifactProfile: wordsOf(profiles, [execution?.artifactProfile]).join(),
    ...transportMembers(execution?.keyTransport),
  });
}

function callOf(signal: AbortSignal | undefined, idempotencyKey?: string) {
  return {
    ...(signal !== undefined && { signal }),
    ...(idempotencyKey !== undefined && { headers: { "idempotency-key": idempotencyKey } }),
  };
}

function describe({ workload, resource, purpose, labels, attributes }: Description) {
  return {
    workload: create(WorkloadDescriptorSchema, workload),
    resource: resourceOf(resource),
    ...(purpose !== undefined && { purpose }),
    labels: [...labels],
    attributes: { ...attributes },
  };
}

function resourceOf({ mime_type, ...resource }: Resource): MessageInitShape<typeof ResourceDescriptorSchema> {
  return { ...resource, ...(mime_type !== undefined && { mimeType: mime_type }) };
}

function aboutArtifact(names: {
  readonly content_digest?: string;
  readonly artifact_digest?: string;
  readonly artifact_cid?: string;
}) {
  return {
    ...(names.content_digest !== undefined && { contentDigest: names.content_digest }),
    ...(names.artifact_digest !== undefined && { artifactDigest: names.artifact_digest }),
    ...(names.artifact_cid !== undefined && { artifactCid: names.artifact_cid }),
  };
}

/** Words of known numbers; unknown ones are left out, so that they permit nothing. */
function wordsOf<Word extends string>(
  table: Readonly<Record<Word, number>>,
  numbers: readonly (number | undefined)[],
): readonly Word[] {
  const words = Object.keys(table) as Word[];
  return words.filter((word) => numbers.includes(table[word]));
}

function transportMembers(transport: KeyTransport | undefined): Pick<Decision["plan"], "keyTransport" | "tdfKey"> {
  const { mode = "local_provided", tdfKey } = transport ?? {};
  if (tdfKey === undefined) return { keyTransport: mode };
  const { url, kid, algorithm, attributeFqns } = tdfKey;
  return { keyTransport: mode, tdfKey: { url, kid, algorithm, attributeFqns } };
}

interface AnswerDecision {
  readonly allow: boolean;
  readonly decisionId: string;
  readonly policyRevision: string;
  readonly reasons: readonly string[];
  readonly obligations: readonly Obligation[];
  readonly receipt?: Receipt | undefined;
}

function decisionOf(decision: AnswerDecision | undefined, plan: Decision["plan"]): Decision {
  if (decision === undefined) throw new Error("the answer has no decision");
  const { allow, decisionId, policyRevision, reasons, obligations } = decision;
  return {
    ...{ allow, decisionId, policyRevision, reasons, plan },
    obligations: obligations.map(({ id, parameters }) => ({ id, parameters })),
    ...receiptMember(decision.receipt),
  };
}

export function acceptedOf(
  answer: { readonly accepted: boolean; readonly receipt?: Receipt | undefined } | undefined,
  warnings: readonly string[],
): Accepted {
  return { accepted: answer?.accepted === true, warnings, ...receiptMember(answer?.receipt) };
}

/** In the spelling of the JSON routes, which offline verifiers read. */
function receiptMember(receipt: Receipt | undefined): { readonly receipt?: JsonObject } {
  if (receipt === undefined) return {};
  const { leaf, opening, record } = receipt;
  return {
    receipt: {
      record_id: receipt.recordId,
      log_origin: receipt.logOrigin,
      leaf_index: Number(receipt.leafIndex),
      tree_size: Number(receipt.treeSize),
      leaf_hash: receipt.leafHash,
      proof: receipt.proof,
      ...(leaf !== undefined && { leaf }),
      ...(opening !== undefined && { opening }),
      ...(record !== undefined && { record }),
    },
  };
}
