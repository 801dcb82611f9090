/** A request and an answer for each call. */
import {
  create,
  type DescMessage,
  type DescMethodUnary,
  type JsonObject,
  type MessageShape,
  mergeFromJson,
} from "@bufbuild/protobuf";
import { BulkDecisionService } from "../../gen/platform/bulk/v1/decisions_pb.ts";
import { BulkRecordService } from "../../gen/platform/bulk/v1/records_pb.ts";
import { DiscoveryService } from "../../gen/platform/sdk/v1/discovery_pb.ts";
import { EvidenceService } from "../../gen/platform/sdk/v1/evidence_pb.ts";
import { ProtectionService } from "../../gen/platform/sdk/v1/protection_pb.ts";
import { RegistrationService } from "../../gen/platform/sdk/v1/registration_pb.ts";
import { recordedForm } from "../typescript/src/receipts/relations.ts";
import type { LoggedRecord } from "./log.ts";
import type { BulkRoute, Route } from "./protocol.ts";

export const services = [
  ...([DiscoveryService, ProtectionService, RegistrationService, EvidenceService] as const),
  ...([BulkDecisionService, BulkRecordService] as const),
] as const;

export const methods: Readonly<Record<Route | BulkRoute, DescMethodUnary>> = {
  whoami: DiscoveryService.method.whoAmI,
  capabilities: DiscoveryService.method.getCapabilities,
  bootstrap: DiscoveryService.method.getBootstrap,
  "protection-plan": ProtectionService.method.planProtection,
  "policy-resolve": ProtectionService.method.resolvePolicy,
  "key-access-plan": ProtectionService.method.planKeyAccess,
  "artifact-register": RegistrationService.method.registerArtifact,
  evidence: EvidenceService.method.recordEvidence,
  "bulk/protection-plans": BulkDecisionService.method.planProtections,
  "bulk/policy-resolutions": BulkDecisionService.method.resolvePolicies,
  "bulk/key-access-plans": BulkDecisionService.method.planKeyAccesses,
  "bulk/evidence": BulkRecordService.method.recordEvents,
  "bulk/artifact-registrations": BulkRecordService.method.registerArtifacts,
};

/** The single call that an item of each is. */
export const singleRoutes: Readonly<Record<BulkRoute, Route>> = {
  "bulk/protection-plans": "protection-plan",
  "bulk/policy-resolutions": "policy-resolve",
  "bulk/key-access-plans": "key-access-plan",
  "bulk/evidence": "evidence",
  "bulk/artifact-registrations": "artifact-register",
};

const common = {
  workload: { application: "payroll-export", environment: "production" },
  resource: { kind: "customer-record", id: "cust-8841", mimeType: "application/pdf" },
  purpose: "archive",
  labels: ["confidential"],
  attributes: { region: "eu" },
};
const artifact = { artifactProfile: "ARTIFACT_PROFILE_TDF", artifactDigest: `sha256:${"2c".repeat(32)}` };

/** Requests of single calls as protobuf JSON. */
export const requests: Readonly<Record<Route, JsonObject>> = {
  whoami: {},
  capabilities: {},
  bootstrap: {},
  "protection-plan": { ...common, operation: "PROTECTION_OPERATION_PROTECT", contentSizeBytes: "48213" },
  "policy-resolve": { ...common, operation: "PROTECTION_OPERATION_ACCESS" },
  "key-access-plan": { ...common, operation: "KEY_ACCESS_OPERATION_WRAP", keyReference: "kms://tenant-a/keys/42" },
  "artifact-register": { ...common, ...artifact, operation: "PROTECTION_OPERATION_PROTECT" },
  evidence: { ...common, ...artifact, eventType: "EVIDENCE_EVENT_TYPE_PROTECT", outcome: "completed" },
};

const numbered = (request: JsonObject, i: number): JsonObject => ({
  ...request,
  resource: { ...common.resource, id: `record-${i}` },
});

/** So many items of a bulk call, each of another resource. */
export function itemsOf(route: BulkRoute, count: number): JsonObject[] {
  const made = Array.from({ length: count }, (_, i) => numbered(requests[singleRoutes[route]], i));
  if (route === "bulk/evidence") return made.map((event) => ({ event }));
  return route === "bulk/artifact-registrations" ? made.map((registration) => ({ registration })) : made;
}

const scopes = ["platform-api.access", "policy.read"];
const caller = {
  ...{ tenantId: "tenant-a", principalId: "payroll-service", subject: "payroll", authSource: "bearer_token" },
  scopes,
};
export const heading = { service: "svc-platform-api", status: "ready", caller };
const decision = {
  allow: true,
  decisionId: "01890a5d-ac96-774b-bcce-b302099a8057",
  policyRevision: "sha256:0123",
  reasons: ["platform/allow"],
};
const requestSummary = {
  workloadApplication: "payroll-export",
  workloadEnvironment: "production",
  resourceKind: "customer-record",
  resourceId: "cust-8841",
  mimeType: "application/pdf",
  purpose: "archive",
  labelCount: 1,
  attributeCount: 1,
};
const protect = { ...requestSummary, operation: "PROTECTION_OPERATION_PROTECT" };
const authConfiguration = { mode: "oauth_client_credentials", proofOfPossession: "mtls", mtlsReady: true };

const plaintextTransport = "forbidden_by_default";
const keyTransport = {
  mode: "wrapped_key_reference",
  keyMaterialOrigin: "kms",
  stableKeyReferencePreferred: true,
  rawKeyDeliveryForbidden: true,
};

/** Answers as protobuf JSON, with every member that the record of the same call settles. */
export const answers: Readonly<Record<Route, JsonObject>> = {
  whoami: { ...heading, status: "ok" },
  capabilities: {
    ...heading,
    authMode: "AUTH_MODE_BEARER_TOKEN",
    authConfiguration,
    routes: [{ route: "/v1/sdk/whoami", domain: "platform", configured: true }],
  },
  bootstrap: {
    ...heading,
    authMode: "AUTH_MODE_BEARER_TOKEN",
    authConfiguration,
    enforcementModel: "embedded_local_library",
    supportedOperations: ["PROTECTION_OPERATION_PROTECT"],
    supportedArtifactProfiles: ["ARTIFACT_PROFILE_TDF"],
  },
  "protection-plan": {
    ...heading,
    requestSummary: { ...protect, preferredArtifactProfile: "ARTIFACT_PROFILE_TDF", contentSizeBytes: "48213" },
    decision: { ...decision, handlingMode: "local_embedded_enforcement", plaintextTransport },
    execution: {
      protectLocally: true,
      localEnforcementLibrary: "sdk_embedded_library",
      sendOnly: ["workload", "resource"],
      artifactProfile: "ARTIFACT_PROFILE_TDF",
      keyStrategy: "caller_managed",
      policyResolution: "metadata_only",
      keyTransport,
    },
  },
  "policy-resolve": {
    ...heading,
    requestSummary: { ...requestSummary, operation: "PROTECTION_OPERATION_ACCESS" },
    decision: { ...decision, enforcementMode: "local_embedded_enforcement", requiredActions: ["record_evidence"] },
    handling: {
      protectLocally: true,
      plaintextTransport,
      bindPolicyTo: ["artifact_digest", "content_digest"],
      evidenceExpected: ["access"],
    },
  },
  "key-access-plan": {
    ...heading,
    requestSummary: {
      ...requestSummary,
      operation: "KEY_ACCESS_OPERATION_WRAP",
      artifactProfile: "ARTIFACT_PROFILE_TDF",
      keyReferencePresent: true,
    },
    decision: { ...decision, operation: "KEY_ACCESS_OPERATION_WRAP", keyReferencePresent: true },
    execution: {
      localCryptographicOperation: true,
      platformRole: "authorize_only",
      sendOnly: ["workload", "resource"],
      artifactProfile: "ARTIFACT_PROFILE_TDF",
      authorizationStrategy: "policy",
      keyTransport,
    },
  },
  "artifact-register": {
    ...heading,
    requestSummary: { ...protect, ...artifact },
    registration: {
      accepted: true,
      artifactTransport: "metadata_only",
      catalogActions: ["record_artifact_metadata"],
      evidenceExpected: ["protect"],
    },
  },
  evidence: {
    ...heading,
    requestSummary: {
      ...requestSummary,
      eventType: "EVIDENCE_EVENT_TYPE_PROTECT",
      artifactProfile: artifact.artifactProfile,
      artifactDigestPresent: true,
      outcome: "completed",
    },
    ingestion: { accepted: true, plaintextTransport, correlateBy: ["artifact_digest", "resource.id"] },
  },
};

/** The sample answer of a call, with what is given merged into its protobuf JSON. */
export function answerOf(route: Route, ...changes: readonly object[]): MessageShape<DescMessage> {
  const json = changes.reduce<object>(merged, answers[route]);
  const message = create(methods[route].output);
  return mergeFromJson(methods[route].output, message, json as JsonObject);
}

/** What a log holds of a call that is answered by the sample: a decision or record of this id. */
export function recordOf(route: Route, request: MessageShape<DescMessage>, recordId: string): LoggedRecord {
  const { tenantId, principalId, subject, authSource } = caller;
  const { allow, policyRevision, reasons } = decision;
  const member = resultMembers[route];
  const kind = member === "ingestion" ? "evidence" : (member ?? "");
  const decided = { allow, policy_revision: policyRevision, reasons, caller_scopes: scopes, guidance };
  return {
    kind,
    record_id: recordId,
    tenant_id: tenantId,
    caller: { principal_id: principalId, subject, auth_source: authSource },
    route: `/v1/sdk/${route}`,
    request: recordedForm(methods[route].input, request),
    outcome: kind === "decision" ? decided : { accepted: true, citation: "none" },
  };
}

/** What the log keeps of the guidance of every decision. */
const guidance = {
  artifact_profile: "tdf",
  authorization_strategy: "policy",
  bind_policy_to: ["artifact_digest", "content_digest"],
  enforcement_mode: "local_embedded_enforcement",
  evidence_expected: ["access"],
  handling_mode: "local_embedded_enforcement",
  key_strategy: "caller_managed",
  key_transport: {
    mode: "wrapped_key_reference",
    key_material_origin: "kms",
    stable_key_reference_preferred: true,
    raw_key_delivery_forbidden: true,
  },
  local_enforcement_library: "sdk_embedded_library",
  policy_resolution: "metadata_only",
  required_actions: ["record_evidence"],
  send_only: ["workload", "resource"],
};

/** Members of the second over those of the first, objects member by member. */
export function merged<T extends object>(first: T, second: object): T {
  const isObject = (value: unknown): value is object =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  const result = { ...first } as Record<string, unknown>;
  for (const [name, value] of Object.entries(second)) {
    const old = result[name];
    result[name] = isObject(value) && isObject(old) ? merged(old, value) : value;
  }
  return result as T;
}

/** Where an answer carries what was decided or recorded. */
export const resultMembers: Partial<Record<Route, string>> = {
  "protection-plan": "decision",
  "policy-resolve": "decision",
  "key-access-plan": "decision",
  "artifact-register": "registration",
  evidence: "ingestion",
};
