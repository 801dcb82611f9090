/** Answers of `protection-plan`, `policy-resolve` and `key-access-plan`. */
import type { ArtifactProfile, KeyAccessOperation, ProtectionOperation } from "../base/vocabulary.ts";
import {
  type AnswerTail,
  type DecisionMembers,
  decisionMembers,
  type KeyTransport,
  keyTransport,
  namedWarnings,
  plaintextTransport,
  warnings,
} from "./answer.ts";
import { type DecisionDependencies, decide } from "./decision.ts";
import {
  keyReferenceViolations,
  operationViolations,
  profileViolations,
  refuseViolations,
  servedOperation,
} from "./deployment.ts";
import { platformDomains } from "./platform-domains.ts";
import type { CallIdentity } from "./record.ts";
import {
  type KeyAccessRequest,
  type PolicyResolveRequest,
  type ProtectionPlanRequest,
  type RequestSummary,
  summarize,
} from "./requests.ts";

/** Summary of a request that names an operation on content. */
export interface PolicySummary extends RequestSummary {
  readonly operation: ProtectionOperation;
  readonly contentDigestPresent: boolean;
  readonly contentSizeBytes?: number | undefined;
}

export interface ProtectionPlan extends AnswerTail {
  readonly requestSummary: PolicySummary & { readonly preferredArtifactProfile: ArtifactProfile };
  readonly decision: DecisionMembers & { readonly handlingMode: string; readonly plaintextTransport: string };
  readonly execution: {
    readonly protectLocally: boolean;
    readonly localEnforcementLibrary: string;
    readonly sendPlaintextToPlatform: false;
    readonly sendOnly: readonly string[];
    readonly artifactProfile: ArtifactProfile;
    readonly keyStrategy: string;
    readonly policyResolution: string;
    readonly keyTransport?: KeyTransport | undefined;
  };
}

export interface PolicyResolution extends AnswerTail {
  readonly requestSummary: PolicySummary;
  readonly decision: DecisionMembers & {
    readonly enforcementMode: string;
    readonly policyInputs: readonly string[];
    readonly requiredActions: readonly string[];
  };
  readonly handling: {
    readonly protectLocally: boolean;
    readonly plaintextTransport: string;
    readonly bindPolicyTo: readonly string[];
    readonly evidenceExpected: readonly string[];
  };
}

export interface Protection {
  /**
   * Both reject with `ServiceError`: `invalid_request` if the operation or profile is not supported,
   * `store_unavailable` if the decision could not be recorded.
   */
  plan(call: CallIdentity, request: ProtectionPlanRequest): Promise<ProtectionPlan>;
  resolve(call: CallIdentity, request: PolicyResolveRequest): Promise<PolicyResolution>;
}

export function createProtection(dependencies: DecisionDependencies): Protection {
  return {
    plan: (call, request) => plan(dependencies, call, request),
    resolve: (call, request) => resolve(dependencies, call, request),
  };
}

async function plan(
  dependencies: DecisionDependencies,
  call: CallIdentity,
  request: ProtectionPlanRequest,
): Promise<ProtectionPlan> {
  const { deployment, live } = dependencies;
  const { operation, preferred_artifact_profile: preferred } = request;
  refuseViolations([
    ...operationViolations(deployment, operation),
    ...profileViolations(deployment, "preferred_artifact_profile", preferred),
  ]);
  const decided = await decide(dependencies, call, { route: "protection-plan", request });
  const { allow, guidance } = decided;
  return {
    requestSummary: {
      ...policySummary(request),
      preferredArtifactProfile: preferred ?? guidance.artifactProfile,
    },
    decision: { ...decisionMembers(decided), handlingMode: guidance.handlingMode, plaintextTransport },
    execution: {
      protectLocally: allow,
      localEnforcementLibrary: guidance.localEnforcementLibrary,
      sendPlaintextToPlatform: false,
      sendOnly: guidance.sendOnly,
      artifactProfile: guidance.artifactProfile,
      keyStrategy: guidance.keyStrategy,
      policyResolution: guidance.policyResolution,
      keyTransport: keyTransport(decided),
    },
    platformDomains: platformDomains(live, call.caller.tenantId),
    warnings: [
      ...namedWarnings(request),
      ...(guidance.artifactProfileOverridden ? [warnings.profileOverridden] : []),
      ...guidance.warnings,
    ],
  };
}

async function resolve(
  dependencies: DecisionDependencies,
  call: CallIdentity,
  request: PolicyResolveRequest,
): Promise<PolicyResolution> {
  const { deployment, live } = dependencies;
  const { operation } = request;
  refuseViolations(operationViolations(deployment, operation));
  const decided = await decide(dependencies, call, { route: "policy-resolve", request });
  const { allow, guidance, inputs } = decided;
  return {
    requestSummary: policySummary(request),
    decision: {
      ...decisionMembers(decided),
      enforcementMode: guidance.enforcementMode,
      policyInputs: inputs,
      requiredActions: guidance.requiredActions,
    },
    handling: {
      protectLocally: allow,
      plaintextTransport,
      bindPolicyTo: guidance.bindPolicyTo,
      evidenceExpected: guidance.evidenceExpected,
    },
    platformDomains: platformDomains(live, call.caller.tenantId),
    warnings: [...namedWarnings(request), ...guidance.warnings],
  };
}

function policySummary(request: PolicyResolveRequest): PolicySummary {
  return {
    ...summarize(request),
    operation: request.operation,
    contentDigestPresent: request.content_digest !== undefined,
    contentSizeBytes: request.content_size_bytes,
  };
}

export interface KeyAccessPlan extends AnswerTail {
  readonly requestSummary: RequestSummary & {
    readonly operation: KeyAccessOperation;
    readonly artifactProfile: ArtifactProfile;
    readonly keyReferencePresent: boolean;
    readonly contentDigestPresent: boolean;
  };
  readonly decision: DecisionMembers & {
    readonly operation: KeyAccessOperation;
    readonly keyReferencePresent: boolean;
  };
  readonly execution: {
    readonly localCryptographicOperation: boolean;
    readonly platformRole: "authorize_only";
    readonly sendPlaintextToPlatform: false;
    readonly sendOnly: readonly string[];
    readonly artifactProfile: ArtifactProfile;
    readonly authorizationStrategy: string;
    readonly keyTransport?: KeyTransport | undefined;
  };
}

export interface KeyAccess {
  /**
   * Rejects with `ServiceError`: `invalid_request` if the profile or the operation that the key operation serves is not
   * supported, `store_unavailable` if the decision could not be recorded.
   */
  plan(call: CallIdentity, request: KeyAccessRequest): Promise<KeyAccessPlan>;
}

export function createKeyAccess(dependencies: DecisionDependencies): KeyAccess {
  return { plan: (call, request) => planAccess(dependencies, call, request) };
}

async function planAccess(
  dependencies: DecisionDependencies,
  call: CallIdentity,
  request: KeyAccessRequest,
): Promise<KeyAccessPlan> {
  const { deployment, live } = dependencies;
  const { operation, artifact_profile, key_reference } = request;
  refuseViolations([
    ...operationViolations(deployment, servedOperation[operation]),
    ...profileViolations(deployment, "artifact_profile", artifact_profile),
    ...keyReferenceViolations(deployment, key_reference),
  ]);
  const decided = await decide(dependencies, call, { route: "key-access-plan", request });
  const { guidance } = decided;
  const keyReferencePresent = key_reference !== undefined;
  return {
    requestSummary: {
      ...summarize(request),
      operation,
      artifactProfile: guidance.artifactProfile,
      keyReferencePresent,
      contentDigestPresent: request.content_digest !== undefined,
    },
    decision: { ...decisionMembers(decided), operation, keyReferencePresent },
    execution: {
      localCryptographicOperation: decided.allow,
      platformRole: "authorize_only",
      sendPlaintextToPlatform: false,
      sendOnly: guidance.sendOnly,
      artifactProfile: guidance.artifactProfile,
      authorizationStrategy: guidance.authorizationStrategy,
      keyTransport: keyTransport(decided),
    },
    platformDomains: platformDomains(live, call.caller.tenantId),
    warnings: [
      ...namedWarnings(request),
      ...(guidance.artifactProfileOverridden ? [warnings.profileOverridden] : []),
      ...guidance.warnings,
    ],
  };
}
