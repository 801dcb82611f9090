/** The services that decide, over their domain, one by one and in bulk. */
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { BulkDecisionService } from "../../../gen/platform/bulk/v1/decisions_pb.ts";
import {
  type PlanKeyAccessRequest,
  PlanKeyAccessRequestSchema,
  type PlanProtectionRequest,
  PlanProtectionRequestSchema,
  type ProtectionService,
  type ResolvePolicyRequest,
  ResolvePolicyRequestSchema,
} from "../../../gen/platform/sdk/v1/protection_pb.ts";
import type { DecisionMembers, ProvingLedger } from "../../domain/answer.ts";
import type { BulkLedger, StopRule } from "../../domain/bulk.ts";
import type { DecisionDependencies } from "../../domain/decision.ts";
import type { PlatformDomain } from "../../domain/platform-domains.ts";
import {
  type KeyAccessPlan,
  type PolicyResolution,
  type ProtectionPlan,
  planKeyAccess,
  planProtection,
  resolvePolicy,
} from "../../domain/protection.ts";
import type { CallIdentity } from "../../domain/record.ts";
import type { KeyAccessRequest, PolicyResolveRequest, ProtectionPlanRequest } from "../../domain/requests.ts";
import { toNormalForm } from "../codec/normal-form.ts";
import { answerBulk } from "./bulk.ts";
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
  /** Decides, and adds what the answers of all three methods have. */
  const answer = async <Answer extends { readonly platformDomains: readonly PlatformDomain[] }, Members>(
    context: HandlerContext,
    decide: (identity: CallIdentity) => Promise<Answer>,
    membersOf: (context: HandlerContext, answer: Answer) => Members,
  ) => {
    const identity = identityOf(context);
    const answer = await decide(identity);
    return {
      ...envelope(service, identity.caller),
      ...membersOf(context, answer),
      platformDomains: platformDomainMessages(answer.platformDomains),
    };
  };
  return {
    planProtection: (message, context) =>
      answer(
        context,
        (identity) => planProtection(dependencies, identity, planRequest(message)),
        (context, answer) => ({
          requestSummary: {
            ...forMessage(answer.requestSummary),
            operation: protectionOperation[answer.requestSummary.operation],
            contentSizeBytes: sizeOf(answer.requestSummary),
            preferredArtifactProfile: artifactProfile[answer.requestSummary.preferredArtifactProfile],
            $typeName: "platform.sdk.v1.ProtectionSummary" as const,
          },
          ...planMembers(context, answer),
          $typeName: "platform.sdk.v1.PlanProtectionResponse" as const,
        }),
      ),
    resolvePolicy: (message, context) =>
      answer(
        context,
        (identity) => resolvePolicy(dependencies, identity, resolutionRequest(message)),
        (context, answer) => ({
          requestSummary: {
            ...forMessage(answer.requestSummary),
            operation: protectionOperation[answer.requestSummary.operation],
            contentSizeBytes: sizeOf(answer.requestSummary),
            $typeName: "platform.sdk.v1.PolicySummary" as const,
          },
          ...resolutionMembers(context, answer),
          $typeName: "platform.sdk.v1.ResolvePolicyResponse" as const,
        }),
      ),
    planKeyAccess: (message, context) =>
      answer(
        context,
        (identity) => planKeyAccess(dependencies, identity, keyAccessRequest(message)),
        (context, answer) => ({
          requestSummary: {
            ...forMessage(answer.requestSummary),
            operation: keyAccessOperation[answer.requestSummary.operation],
            artifactProfile: artifactProfile[answer.requestSummary.artifactProfile],
            $typeName: "platform.sdk.v1.KeyAccessSummary" as const,
          },
          ...keyAccessMembers(context, answer),
          $typeName: "platform.sdk.v1.PlanKeyAccessResponse" as const,
        }),
      ),
  };
}

function planRequest(message: PlanProtectionRequest): ProtectionPlanRequest {
  return toNormalForm<PlanProtectionRequest, ProtectionPlanRequest>(PlanProtectionRequestSchema, message);
}

function resolutionRequest(message: ResolvePolicyRequest): PolicyResolveRequest {
  return toNormalForm<ResolvePolicyRequest, PolicyResolveRequest>(ResolvePolicyRequestSchema, message);
}

function keyAccessRequest(message: PlanKeyAccessRequest): KeyAccessRequest {
  return toNormalForm<PlanKeyAccessRequest, KeyAccessRequest>(PlanKeyAccessRequestSchema, message);
}

/** Decisions are made as on their single routes. */
export type BulkDecisionDependencies = DecisionDependencies & { readonly ledger: BulkLedger & ProvingLedger };

/** The bulk decision service over the domain of the single routes. `service` is the name in every answer. */
export function createBulkDecisionService(
  service: string,
  dependencies: BulkDecisionDependencies,
): ServiceImpl<typeof BulkDecisionService> {
  return {
    planProtections: (request, context) =>
      answerBulk(service, dependencies, context, {
        handle: (item, identity, ledger) =>
          planProtection({ ...dependencies, ledger }, identity, planRequest(item as PlanProtectionRequest)),
        ...decisions(request),
        membersOf: planMembers,
      }),
    resolvePolicies: (request, context) =>
      answerBulk(service, dependencies, context, {
        handle: (item, identity, ledger) =>
          resolvePolicy({ ...dependencies, ledger }, identity, resolutionRequest(item as ResolvePolicyRequest)),
        ...decisions(request),
        membersOf: resolutionMembers,
      }),
    planKeyAccesses: (request, context) =>
      answerBulk(service, dependencies, context, {
        handle: (item, identity, ledger) =>
          planKeyAccess({ ...dependencies, ledger }, identity, keyAccessRequest(item as PlanKeyAccessRequest)),
        ...decisions(request),
        membersOf: keyAccessMembers,
      }),
  };
}

function decisions(request: { stopOnFirstDeny: boolean; stopOnFirstAllow: boolean }) {
  return { receiptOf, stopsAfter: stopRule(request) };
}

function receiptOf({ decision }: { readonly decision: DecisionMembers }) {
  return decision.receipt;
}

function stopRule(asked: { stopOnFirstDeny: boolean; stopOnFirstAllow: boolean }): StopRule | undefined {
  const { stopOnFirstDeny, stopOnFirstAllow } = asked;
  if (!stopOnFirstDeny && !stopOnFirstAllow) return undefined;
  return (isAllowed) => (isAllowed ? stopOnFirstAllow : stopOnFirstDeny);
}

/** The members of the answer that describe the plan, for single and bulk calls. */
function planMembers(context: HandlerContext, answer: ProtectionPlan) {
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

function resolutionMembers(context: HandlerContext, answer: PolicyResolution) {
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

function keyAccessMembers(context: HandlerContext, answer: KeyAccessPlan) {
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
