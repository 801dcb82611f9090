import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import {
  type PlanKeyAccessRequest,
  PlanKeyAccessRequestSchema,
  type PlanKeyAccessResponse,
  type PlanProtectionRequest,
  PlanProtectionRequestSchema,
  type PlanProtectionResponse,
  type ProtectionService,
  type ResolvePolicyRequest,
  ResolvePolicyRequestSchema,
  type ResolvePolicyResponse,
} from "../../../gen/platform/sdk/v1/protection_pb.ts";
import type { DecisionDependencies } from "../../domain/decision.ts";
import {
  type KeyAccessPlan,
  type PolicyResolution,
  type ProtectionPlan,
  planKeyAccess,
  planProtection,
  resolvePolicy,
} from "../../domain/protection.ts";
import type { KeyAccessRequest, PolicyResolveRequest, ProtectionPlanRequest } from "../../domain/requests.ts";
import { toNormalForm } from "../codec/normal-form.ts";
import {
  artifactProfile,
  envelope,
  forMessage,
  identityOf,
  keyAccessOperation,
  keyTransportMessage,
  obligationMessages,
  platformDomainMessages,
  protectionOperation,
  receiptMessage,
} from "./messages.ts";

/**
 * The protection service over its domain. `service` is the name in every answer. Answers are built as complete
 * messages, each part with the name of its type, so that nothing is completed or copied: most calls are to this
 * service.
 */
export function createProtectionService(
  service: string,
  dependencies: DecisionDependencies,
): ServiceImpl<typeof ProtectionService> {
  return {
    async planProtection(message, context): Promise<PlanProtectionResponse> {
      const identity = identityOf(context);
      const request = toNormalForm<PlanProtectionRequest, ProtectionPlanRequest>(PlanProtectionRequestSchema, message);
      const answer = await planProtection(dependencies, identity, request);
      const { requestSummary } = forMessage(answer);
      return {
        ...envelope(service, identity.caller),
        requestSummary: {
          ...requestSummary,
          operation: protectionOperation[requestSummary.operation],
          contentSizeBytes: sizeOf(requestSummary),
          preferredArtifactProfile: artifactProfile[requestSummary.preferredArtifactProfile],
          $typeName: "platform.sdk.v1.ProtectionSummary",
        },
        ...planMembers(context, answer),
        platformDomains: platformDomainMessages(answer.platformDomains),
        $typeName: "platform.sdk.v1.PlanProtectionResponse",
      };
    },
    async resolvePolicy(message, context): Promise<ResolvePolicyResponse> {
      const identity = identityOf(context);
      const request = toNormalForm<ResolvePolicyRequest, PolicyResolveRequest>(ResolvePolicyRequestSchema, message);
      const answer = await resolvePolicy(dependencies, identity, request);
      const { requestSummary } = forMessage(answer);
      return {
        ...envelope(service, identity.caller),
        requestSummary: {
          ...requestSummary,
          operation: protectionOperation[requestSummary.operation],
          contentSizeBytes: sizeOf(requestSummary),
          $typeName: "platform.sdk.v1.PolicySummary",
        },
        ...resolutionMembers(context, answer),
        platformDomains: platformDomainMessages(answer.platformDomains),
        $typeName: "platform.sdk.v1.ResolvePolicyResponse",
      };
    },
    async planKeyAccess(message, context): Promise<PlanKeyAccessResponse> {
      const identity = identityOf(context);
      const request = toNormalForm<PlanKeyAccessRequest, KeyAccessRequest>(PlanKeyAccessRequestSchema, message);
      const answer = await planKeyAccess(dependencies, identity, request);
      const { requestSummary } = forMessage(answer);
      return {
        ...envelope(service, identity.caller),
        requestSummary: {
          ...requestSummary,
          operation: keyAccessOperation[requestSummary.operation],
          artifactProfile: artifactProfile[requestSummary.artifactProfile],
          $typeName: "platform.sdk.v1.KeyAccessSummary",
        },
        ...keyAccessMembers(context, answer),
        platformDomains: platformDomainMessages(answer.platformDomains),
        $typeName: "platform.sdk.v1.PlanKeyAccessResponse",
      };
    },
  };
}

/** The members of the answer that describe the plan, for single and bulk calls. */
export function planMembers(context: HandlerContext, answer: ProtectionPlan) {
  const { decision, execution, warnings } = forMessage(answer);
  return {
    decision: {
      ...decision,
      obligations: obligationMessages(decision.obligations),
      receipt: receiptMessage(context, decision.receipt),
      $typeName: "platform.sdk.v1.ProtectionDecision",
    },
    execution: {
      ...execution,
      artifactProfile: artifactProfile[execution.artifactProfile],
      keyTransport: keyTransportMessage(execution.keyTransport),
      $typeName: "platform.sdk.v1.ProtectionExecution",
    },
    warnings,
  } as const;
}

export function resolutionMembers(context: HandlerContext, answer: PolicyResolution) {
  const { decision, handling, warnings } = forMessage(answer);
  return {
    decision: {
      ...decision,
      obligations: obligationMessages(decision.obligations),
      receipt: receiptMessage(context, decision.receipt),
      $typeName: "platform.sdk.v1.PolicyDecision",
    },
    handling: { ...handling, $typeName: "platform.sdk.v1.PolicyHandling" },
    warnings,
  } as const;
}

export function keyAccessMembers(context: HandlerContext, answer: KeyAccessPlan) {
  const { decision, execution, warnings } = forMessage(answer);
  return {
    decision: {
      ...decision,
      operation: keyAccessOperation[decision.operation],
      obligations: obligationMessages(decision.obligations),
      receipt: receiptMessage(context, decision.receipt),
      $typeName: "platform.sdk.v1.KeyAccessDecision",
    },
    execution: {
      ...execution,
      artifactProfile: artifactProfile[execution.artifactProfile],
      keyTransport: keyTransportMessage(execution.keyTransport),
      $typeName: "platform.sdk.v1.KeyAccessExecution",
    },
    warnings,
  } as const;
}

function sizeOf({ contentSizeBytes }: { readonly contentSizeBytes: number | undefined }): bigint | undefined {
  return contentSizeBytes === undefined ? undefined : BigInt(contentSizeBytes);
}
