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
import type { DecisionMembers } from "../../domain/answer.ts";
import type { StopRule } from "../../domain/bulk.ts";
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
import { answerBulk, type BulkDependencies } from "./bulk.ts";
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

/** How the questions of one method are decided and answered, one by one and in bulk. */
interface Kind<Request, Answer, Summary, Members> {
  readonly decide: (dependencies: DecisionDependencies, identity: CallIdentity, message: Request) => Promise<Answer>;
  /** Members of a single answer only. */
  readonly summaryOf: (answer: Answer) => Summary;
  readonly membersOf: (context: HandlerContext, answer: Answer) => Members;
}

const plans = {
  decide: (dependencies: DecisionDependencies, identity: CallIdentity, message: PlanProtectionRequest) => {
    const request = toNormalForm<PlanProtectionRequest, ProtectionPlanRequest>(PlanProtectionRequestSchema, message);
    return planProtection(dependencies, identity, request);
  },
  summaryOf: ({ requestSummary: summary }: ProtectionPlan) => ({
    requestSummary: {
      ...forMessage(summary),
      operation: protectionOperation[summary.operation],
      contentSizeBytes: sizeOf(summary),
      preferredArtifactProfile: artifactProfile[summary.preferredArtifactProfile],
      $typeName: "platform.sdk.v1.ProtectionSummary" as const,
    },
    $typeName: "platform.sdk.v1.PlanProtectionResponse" as const,
  }),
  membersOf(context: HandlerContext, answer: ProtectionPlan) {
    const { decision, execution, warnings } = forMessage(answer);
    return {
      decision: { ...decision, ...proofOf(context, decision), $typeName: "platform.sdk.v1.ProtectionDecision" },
      execution: {
        ...execution,
        artifactProfile: artifactProfile[execution.artifactProfile],
        keyTransport: keyTransportMessage(execution.keyTransport),
        $typeName: "platform.sdk.v1.ProtectionExecution",
      },
      warnings,
    } as const;
  },
};

const resolutions = {
  decide: (dependencies: DecisionDependencies, identity: CallIdentity, message: ResolvePolicyRequest) => {
    const request = toNormalForm<ResolvePolicyRequest, PolicyResolveRequest>(ResolvePolicyRequestSchema, message);
    return resolvePolicy(dependencies, identity, request);
  },
  summaryOf: ({ requestSummary: summary }: PolicyResolution) => ({
    requestSummary: {
      ...forMessage(summary),
      operation: protectionOperation[summary.operation],
      contentSizeBytes: sizeOf(summary),
      $typeName: "platform.sdk.v1.PolicySummary" as const,
    },
    $typeName: "platform.sdk.v1.ResolvePolicyResponse" as const,
  }),
  membersOf(context: HandlerContext, answer: PolicyResolution) {
    const { decision, handling, warnings } = forMessage(answer);
    return {
      decision: { ...decision, ...proofOf(context, decision), $typeName: "platform.sdk.v1.PolicyDecision" },
      handling: { ...handling, $typeName: "platform.sdk.v1.PolicyHandling" },
      warnings,
    } as const;
  },
};

const keyAccesses = {
  decide: (dependencies: DecisionDependencies, identity: CallIdentity, message: PlanKeyAccessRequest) => {
    const request = toNormalForm<PlanKeyAccessRequest, KeyAccessRequest>(PlanKeyAccessRequestSchema, message);
    return planKeyAccess(dependencies, identity, request);
  },
  summaryOf: ({ requestSummary: summary }: KeyAccessPlan) => ({
    requestSummary: {
      ...forMessage(summary),
      operation: keyAccessOperation[summary.operation],
      artifactProfile: artifactProfile[summary.artifactProfile],
      $typeName: "platform.sdk.v1.KeyAccessSummary" as const,
    },
    $typeName: "platform.sdk.v1.PlanKeyAccessResponse" as const,
  }),
  membersOf(context: HandlerContext, answer: KeyAccessPlan) {
    const { decision, execution, warnings } = forMessage(answer);
    return {
      decision: {
        ...decision,
        ...proofOf(context, decision),
        operation: keyAccessOperation[decision.operation],
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
  },
};

/** Members of every decision that are not as in the domain. */
function proofOf(context: HandlerContext, { obligations, receipt }: DecisionMembers) {
  return { obligations: obligationMessages(obligations), receipt: receiptMessage(context, receipt) };
}

function sizeOf({ contentSizeBytes }: { readonly contentSizeBytes: number | undefined }): bigint | undefined {
  return contentSizeBytes === undefined ? undefined : BigInt(contentSizeBytes);
}

/**
 * The protection service over its domain. `service` is the name in every answer. Answers are built as complete
 * messages, each part with the name of its type, so that nothing is completed or copied: most calls are to this
 * service.
 */
export function createProtectionService(
  service: string,
  dependencies: DecisionDependencies,
): ServiceImpl<typeof ProtectionService> {
  const single =
    <Request, Answer extends { readonly platformDomains: readonly PlatformDomain[] }, Summary, Members>({
      decide,
      summaryOf,
      membersOf,
    }: Kind<Request, Answer, Summary, Members>) =>
    async (message: Request, context: HandlerContext) => {
      const identity = identityOf(context);
      const answer = await decide(dependencies, identity, message);
      return {
        ...envelope(service, identity.caller),
        ...summaryOf(answer),
        ...membersOf(context, answer),
        platformDomains: platformDomainMessages(answer.platformDomains),
      };
    };
  return { planProtection: single(plans), resolvePolicy: single(resolutions), planKeyAccess: single(keyAccesses) };
}

/** Decisions are made as on their single routes. */
export type BulkDecisionDependencies = DecisionDependencies & BulkDependencies;

/** The bulk decision service over the domain of the single routes. `service` is the name in every answer. */
export function createBulkDecisionService(
  service: string,
  dependencies: BulkDecisionDependencies,
): ServiceImpl<typeof BulkDecisionService> {
  const bulk =
    <Request, Answer extends { readonly decision: DecisionMembers }, Members extends { readonly warnings: string[] }>({
      decide,
      membersOf,
    }: Kind<Request, Answer, unknown, Members>) =>
    (asked: StopsAsked, context: HandlerContext) => {
      const stopsAfter = stopRule(asked);
      return answerBulk(service, dependencies, context, {
        handle: (item, identity, ledger) => decide({ ...dependencies, ledger }, identity, item as Request),
        receiptOf: ({ decision }: Answer) => decision.receipt,
        membersOf,
        stopsAfter,
      });
    };
  return { planProtections: bulk(plans), resolvePolicies: bulk(resolutions), planKeyAccesses: bulk(keyAccesses) };
}

interface StopsAsked {
  readonly stopOnFirstDeny: boolean;
  readonly stopOnFirstAllow: boolean;
}

function stopRule({ stopOnFirstDeny, stopOnFirstAllow }: StopsAsked): StopRule | undefined {
  if (!stopOnFirstDeny && !stopOnFirstAllow) return undefined;
  return (isAllowed) => (isAllowed ? stopOnFirstAllow : stopOnFirstDeny);
}
