/** Answer of `key-access-plan`. */
import type { ArtifactProfile, KeyAccessOperation } from "../base/vocabulary.ts";
import { type AnswerTail, type DecisionMembers, decisionMembers, type KeyTransport, keyTransport } from "./answer.ts";
import { type DecisionDependencies, decide } from "./decision.ts";
import { platformDomains } from "./platform-domains.ts";
import type { CallIdentity } from "./record.ts";
import { type KeyAccessRequest, type RequestSummary, summarize } from "./requests.ts";
import {
  keyReferenceViolations,
  operationViolations,
  profileViolations,
  refuseViolations,
  servedOperation,
} from "./support.ts";
import { namedWarnings, warnings } from "./warnings.ts";

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
  return { plan: (call, request) => plan(dependencies, call, request) };
}

async function plan(
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
