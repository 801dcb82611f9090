/** Answers of `protection-plan`, `policy-resolve` and `key-access-plan`. */
import { decisionMembers, decisionWarnings, plaintextTransport } from "./answer.ts";
import { type DecisionDependencies, type DecisionRequest, decide } from "./decision.ts";
import { refuseViolations, wrongQuestion } from "./deployment.ts";
import { platformDomains } from "./platform-domains.ts";
import type { CallIdentity } from "./record.ts";
import { type KeyAccessRequest, type PolicyResolveRequest, type ProtectionPlanRequest, summarize } from "./requests.ts";

export type ProtectionPlan = Awaited<ReturnType<typeof planProtection>>;
export type PolicyResolution = Awaited<ReturnType<typeof resolvePolicy>>;
export type KeyAccessPlan = Awaited<ReturnType<typeof planKeyAccess>>;

/** Decides what the deployment supports; with the members that all answers have. */
async function decideSupported(dependencies: DecisionDependencies, call: CallIdentity, asked: DecisionRequest) {
  const { deployment, live } = dependencies;
  refuseViolations(wrongQuestion(deployment, asked.request));
  const decided = await decide(dependencies, call, asked);
  const warnings = decisionWarnings(asked.request, decided.guidance);
  return { decided, platformDomains: platformDomains(live, call.caller.tenantId), warnings };
}

/**
 * Rejects with `ServiceError`, as do the others here: `invalid_request` if the operation or profile is not supported,
 * `store_unavailable` if the decision could not be recorded.
 */
export async function planProtection(
  dependencies: DecisionDependencies,
  call: CallIdentity,
  request: ProtectionPlanRequest,
) {
  const { decided, ...common } = await decideSupported(dependencies, call, { route: "protection-plan", request });
  const { allow, guidance } = decided;
  return {
    requestSummary: {
      ...policySummary(request),
      preferredArtifactProfile: request.preferred_artifact_profile ?? guidance.artifact_profile,
    },
    decision: { ...decisionMembers(decided), handlingMode: guidance.handling_mode, plaintextTransport },
    execution: {
      protectLocally: allow,
      localEnforcementLibrary: guidance.local_enforcement_library,
      sendPlaintextToPlatform: false,
      sendOnly: guidance.send_only,
      artifactProfile: guidance.artifact_profile,
      keyStrategy: guidance.key_strategy,
      policyResolution: guidance.policy_resolution,
      keyTransport: guidance.key_transport,
    },
    ...common,
  };
}

export async function resolvePolicy(
  dependencies: DecisionDependencies,
  call: CallIdentity,
  request: PolicyResolveRequest,
) {
  const { decided, ...common } = await decideSupported(dependencies, call, { route: "policy-resolve", request });
  const { allow, guidance, inputs } = decided;
  return {
    requestSummary: policySummary(request),
    decision: {
      ...decisionMembers(decided),
      enforcementMode: guidance.enforcement_mode,
      policyInputs: inputs,
      requiredActions: guidance.required_actions,
    },
    handling: {
      protectLocally: allow,
      plaintextTransport,
      bindPolicyTo: guidance.bind_policy_to,
      evidenceExpected: guidance.evidence_expected,
    },
    ...common,
  };
}

function policySummary(request: PolicyResolveRequest) {
  return {
    ...summarize(request),
    operation: request.operation,
    contentDigestPresent: request.content_digest !== undefined,
    contentSizeBytes: request.content_size_bytes,
  };
}

/** The operation that must be supported is the one that the key operation serves. */
export async function planKeyAccess(dependencies: DecisionDependencies, call: CallIdentity, request: KeyAccessRequest) {
  const { operation, key_reference } = request;
  const { decided, ...common } = await decideSupported(dependencies, call, { route: "key-access-plan", request });
  const { guidance } = decided;
  const keyReferencePresent = key_reference !== undefined;
  return {
    requestSummary: {
      ...summarize(request),
      operation,
      artifactProfile: guidance.artifact_profile,
      keyReferencePresent,
      contentDigestPresent: request.content_digest !== undefined,
    },
    decision: { ...decisionMembers(decided), operation, keyReferencePresent },
    execution: {
      localCryptographicOperation: decided.allow,
      platformRole: "authorize_only",
      sendPlaintextToPlatform: false,
      sendOnly: guidance.send_only,
      artifactProfile: guidance.artifact_profile,
      authorizationStrategy: guidance.authorization_strategy,
      keyTransport: guidance.key_transport,
    },
    ...common,
  };
}
