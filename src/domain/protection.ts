/** Answers of `protection-plan` and `policy-resolve`. */
import type { ArtifactProfile, ProtectionOperation } from "../base/vocabulary.ts";
import {
  type AnswerTail,
  type DecisionMembers,
  decisionMembers,
  type KeyTransport,
  keyTransport,
  plaintextTransport,
} from "./answer.ts";
import { type DecisionDependencies, decide } from "./decision.ts";
import { platformDomains } from "./platform-domains.ts";
import type { CallIdentity } from "./record.ts";
import { type PolicyResolveRequest, type ProtectionPlanRequest, type RequestSummary, summarize } from "./requests.ts";
import { operationViolations, profileViolations, refuseViolations } from "./support.ts";
import { namedWarnings, warnings } from "./warnings.ts";

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
