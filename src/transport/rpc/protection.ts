import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import {
  type PlanKeyAccessRequest,
  PlanKeyAccessRequestSchema,
  type PlanProtectionRequest,
  PlanProtectionRequestSchema,
  type ProtectionService,
  type ResolvePolicyRequest,
  ResolvePolicyRequestSchema,
} from "../../../gen/platform/sdk/v1/protection_pb.ts";
import type { KeyAccess } from "../../domain/key-access.ts";
import type { PolicySummary, Protection } from "../../domain/protection.ts";
import type { KeyAccessRequest, PolicyResolveRequest, ProtectionPlanRequest } from "../../domain/requests.ts";
import { toNormalForm } from "../json/normal-form.ts";
import { artifactProfile, keyAccessOperation, protectionOperation } from "./enums.ts";
import { envelope, forMessage, identityOf } from "./envelope.ts";
import { withReceipt } from "./receipt.ts";

/** The protection service over its domain. `service` is the name in every answer. */
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
) {
  const identity = identityOf(context);
  const request = toNormalForm(PlanProtectionRequestSchema, message) as ProtectionPlanRequest;
  const answer = forMessage(await protection.plan(identity, request));
  const { requestSummary, decision, execution } = answer;
  return {
    ...envelope(service, identity.caller),
    ...answer,
    decision: withReceipt(context, decision),
    requestSummary: {
      ...summary(requestSummary),
      preferredArtifactProfile: artifactProfile[requestSummary.preferredArtifactProfile],
    },
    execution: { ...execution, artifactProfile: artifactProfile[execution.artifactProfile] },
  };
}

async function resolvePolicy(
  service: string,
  protection: Protection,
  message: ResolvePolicyRequest,
  context: HandlerContext,
) {
  const identity = identityOf(context);
  const request = toNormalForm(ResolvePolicyRequestSchema, message) as PolicyResolveRequest;
  const answer = forMessage(await protection.resolve(identity, request));
  return {
    ...envelope(service, identity.caller),
    ...answer,
    decision: withReceipt(context, answer.decision),
    requestSummary: summary(answer.requestSummary),
  };
}

async function planKeyAccess(
  service: string,
  keyAccess: KeyAccess,
  message: PlanKeyAccessRequest,
  context: HandlerContext,
) {
  const identity = identityOf(context);
  const request = toNormalForm(PlanKeyAccessRequestSchema, message) as KeyAccessRequest;
  const answer = forMessage(await keyAccess.plan(identity, request));
  const { requestSummary, decision, execution } = answer;
  return {
    ...envelope(service, identity.caller),
    ...answer,
    requestSummary: {
      ...requestSummary,
      operation: keyAccessOperation[requestSummary.operation],
      artifactProfile: artifactProfile[requestSummary.artifactProfile],
    },
    decision: { ...withReceipt(context, decision), operation: keyAccessOperation[decision.operation] },
    execution: { ...execution, artifactProfile: artifactProfile[execution.artifactProfile] },
  };
}

function summary({ operation, contentSizeBytes, ...others }: PolicySummary) {
  return {
    ...others,
    operation: protectionOperation[operation],
    contentSizeBytes: contentSizeBytes === undefined ? undefined : BigInt(contentSizeBytes),
  };
}
