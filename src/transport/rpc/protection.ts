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
import type { KeyAccess } from "../../domain/key-access.ts";
import type { PolicySummary, Protection } from "../../domain/protection.ts";
import type { KeyAccessRequest, PolicyResolveRequest, ProtectionPlanRequest } from "../../domain/requests.ts";
import { toNormalForm } from "../codec/normal-form.ts";
import { artifactProfile, keyAccessOperation, protectionOperation } from "./enums.ts";
import {
  envelope,
  forMessage,
  identityOf,
  keyTransportMessage,
  obligationMessages,
  platformDomainMessages,
  receiptMessage,
} from "./messages.ts";

/**
 * The protection service over its domain. `service` is the name in every answer. Its answers are whole messages, each
 * part with the name of its type, so that nothing has to be completed or copied: most calls are to this service.
 */
export function createProtectionService(
  service: string,
  protection: Protection,
  keyAccess: KeyAccess,
): ServiceImpl<typeof ProtectionService> {
  return {
    planProtection: (request, context) => planProtection(service, protection, request, context),
    resolvePolicy: (request, context) => resolvePolicy(service, protection, request, context),
    planKeyAccess: (request, context) => planKeyAccess(service, keyAccess, request, context),
  };
}

async function planProtection(
  service: string,
  protection: Protection,
  message: PlanProtectionRequest,
  context: HandlerContext,
): Promise<PlanProtectionResponse> {
  const identity = identityOf(context);
  const request = toNormalForm<PlanProtectionRequest, ProtectionPlanRequest>(PlanProtectionRequestSchema, message);
  const answer = forMessage(await protection.plan(identity, request));
  const { requestSummary, decision, execution } = answer;
  return {
    ...envelope(service, identity.caller),
    requestSummary: {
      ...requestSummary,
      operation: protectionOperation[requestSummary.operation],
      contentSizeBytes: sizeOf(requestSummary),
      preferredArtifactProfile: artifactProfile[requestSummary.preferredArtifactProfile],
      $typeName: "platform.sdk.v1.ProtectionSummary",
    },
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
    platformDomains: platformDomainMessages(answer.platformDomains),
    warnings: answer.warnings,
    $typeName: "platform.sdk.v1.PlanProtectionResponse",
  };
}

async function resolvePolicy(
  service: string,
  protection: Protection,
  message: ResolvePolicyRequest,
  context: HandlerContext,
): Promise<ResolvePolicyResponse> {
  const identity = identityOf(context);
  const request = toNormalForm<ResolvePolicyRequest, PolicyResolveRequest>(ResolvePolicyRequestSchema, message);
  const answer = forMessage(await protection.resolve(identity, request));
  const { requestSummary, decision } = answer;
  return {
    ...envelope(service, identity.caller),
    requestSummary: {
      ...requestSummary,
      operation: protectionOperation[requestSummary.operation],
      contentSizeBytes: sizeOf(requestSummary),
      $typeName: "platform.sdk.v1.PolicySummary",
    },
    decision: {
      ...decision,
      obligations: obligationMessages(decision.obligations),
      receipt: receiptMessage(context, decision.receipt),
      $typeName: "platform.sdk.v1.PolicyDecision",
    },
    handling: { ...answer.handling, $typeName: "platform.sdk.v1.PolicyHandling" },
    platformDomains: platformDomainMessages(answer.platformDomains),
    warnings: answer.warnings,
    $typeName: "platform.sdk.v1.ResolvePolicyResponse",
  };
}

async function planKeyAccess(
  service: string,
  keyAccess: KeyAccess,
  message: PlanKeyAccessRequest,
  context: HandlerContext,
): Promise<PlanKeyAccessResponse> {
  const identity = identityOf(context);
  const request = toNormalForm<PlanKeyAccessRequest, KeyAccessRequest>(PlanKeyAccessRequestSchema, message);
  const answer = forMessage(await keyAccess.plan(identity, request));
  const { requestSummary, decision, execution } = answer;
  return {
    ...envelope(service, identity.caller),
    requestSummary: {
      ...requestSummary,
      operation: keyAccessOperation[requestSummary.operation],
      artifactProfile: artifactProfile[requestSummary.artifactProfile],
      $typeName: "platform.sdk.v1.KeyAccessSummary",
    },
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
    platformDomains: platformDomainMessages(answer.platformDomains),
    warnings: answer.warnings,
    $typeName: "platform.sdk.v1.PlanKeyAccessResponse",
  };
}

function sizeOf({ contentSizeBytes }: PolicySummary): bigint | undefined {
  return contentSizeBytes === undefined ? undefined : BigInt(contentSizeBytes);
}
