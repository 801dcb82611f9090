import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { BulkDecisionService } from "../../../gen/platform/bulk/v1/decisions_pb.ts";
import {
  type PlanKeyAccessRequest,
  PlanKeyAccessRequestSchema,
  type PlanProtectionRequest,
  PlanProtectionRequestSchema,
  type ResolvePolicyRequest,
  ResolvePolicyRequestSchema,
} from "../../../gen/platform/sdk/v1/protection_pb.ts";
import type { DecisionMembers } from "../../domain/answer.ts";
import type { BulkLedger, StopRule } from "../../domain/bulk.ts";
import type { DecisionDependencies } from "../../domain/decision.ts";
import { createKeyAccess } from "../../domain/key-access.ts";
import { platformDomains } from "../../domain/platform-domains.ts";
import { createProtection } from "../../domain/protection.ts";
import type { ProvingLedger } from "../../domain/range.ts";
import type { KeyAccessRequest, PolicyResolveRequest, ProtectionPlanRequest } from "../../domain/requests.ts";
import { callerOf } from "../calls/call.ts";
import { toNormalForm } from "../codec/normal-form.ts";
import { handleItems, inTurns, itemMembers } from "./bulk.ts";
import { envelope, platformDomainMessages } from "./messages.ts";
import { keyAccessMembers, planMembers, resolutionMembers } from "./protection.ts";
import { rangeMembers } from "./range.ts";

/** Decisions are made as on their single routes. */
export type BulkDecisionDependencies = DecisionDependencies & { readonly ledger: BulkLedger & ProvingLedger };

/** The bulk decision service over the domain of the single routes. `service` is the name in every answer. */
export function createBulkDecisionService(
  service: string,
  dependencies: BulkDecisionDependencies,
): ServiceImpl<typeof BulkDecisionService> {
  const { ledger, live } = dependencies;
  const head = (context: HandlerContext) => ({
    ...envelope(service, callerOf(context)),
    platformDomains: platformDomainMessages(platformDomains(live, callerOf(context).tenantId)),
  });
  return {
    async planProtections(request, context) {
      const results = await handleItems(
        context,
        ledger,
        (item, identity, own) =>
          createProtection({ ...dependencies, ledger: own }).plan(
            identity,
            toNormalForm<PlanProtectionRequest, ProtectionPlanRequest>(
              PlanProtectionRequestSchema,
              item as PlanProtectionRequest,
            ),
          ),
        stopRule(request),
      );
      const { leaves, receipt } = await rangeMembers(context, ledger, results, receiptOf);
      const items = await inTurns(results, (result, i) => ({
        ...itemMembers(result, (answer) => planMembers(context, answer)),
        leaf: leaves[i],
        $typeName: "platform.bulk.v1.ProtectionPlanItem" as const,
      }));
      return { ...head(context), items, receipt };
    },
    async resolvePolicies(request, context) {
      const results = await handleItems(
        context,
        ledger,
        (item, identity, own) =>
          createProtection({ ...dependencies, ledger: own }).resolve(
            identity,
            toNormalForm<ResolvePolicyRequest, PolicyResolveRequest>(
              ResolvePolicyRequestSchema,
              item as ResolvePolicyRequest,
            ),
          ),
        stopRule(request),
      );
      const { leaves, receipt } = await rangeMembers(context, ledger, results, receiptOf);
      const items = await inTurns(results, (result, i) => ({
        ...itemMembers(result, (answer) => resolutionMembers(context, answer)),
        leaf: leaves[i],
        $typeName: "platform.bulk.v1.PolicyResolutionItem" as const,
      }));
      return { ...head(context), items, receipt };
    },
    async planKeyAccesses(request, context) {
      const results = await handleItems(
        context,
        ledger,
        (item, identity, own) =>
          createKeyAccess({ ...dependencies, ledger: own }).plan(
            identity,
            toNormalForm<PlanKeyAccessRequest, KeyAccessRequest>(
              PlanKeyAccessRequestSchema,
              item as PlanKeyAccessRequest,
            ),
          ),
        stopRule(request),
      );
      const { leaves, receipt } = await rangeMembers(context, ledger, results, receiptOf);
      const items = await inTurns(results, (result, i) => ({
        ...itemMembers(result, (answer) => keyAccessMembers(context, answer)),
        leaf: leaves[i],
        $typeName: "platform.bulk.v1.KeyAccessPlanItem" as const,
      }));
      return { ...head(context), items, receipt };
    },
  };
}

function receiptOf({ decision }: { readonly decision: DecisionMembers }) {
  return decision.receipt;
}

function stopRule(asked: { stopOnFirstDeny: boolean; stopOnFirstAllow: boolean }): StopRule | undefined {
  const { stopOnFirstDeny, stopOnFirstAllow } = asked;
  if (!stopOnFirstDeny && !stopOnFirstAllow) return undefined;
  return (isAllowed) => (isAllowed ? stopOnFirstAllow : stopOnFirstDeny);
}
