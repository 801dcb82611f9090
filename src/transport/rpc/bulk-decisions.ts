import type { ServiceImpl } from "@connectrpc/connect";
import type { BulkDecisionService } from "../../../gen/platform/bulk/v1/decisions_pb.ts";
import {
  type PlanKeyAccessRequest,
  PlanKeyAccessRequestSchema,
  type PlanProtectionRequest,
  PlanProtectionRequestSchema,
  type ResolvePolicyRequest,
  ResolvePolicyRequestSchema,
} from "../../../gen/platform/sdk/v1/protection_pb.ts";
import type { DecisionMembers, ProvingLedger } from "../../domain/answer.ts";
import type { BulkLedger, StopRule } from "../../domain/bulk.ts";
import type { DecisionDependencies } from "../../domain/decision.ts";
import { planKeyAccess, planProtection, resolvePolicy } from "../../domain/protection.ts";
import type { KeyAccessRequest, PolicyResolveRequest, ProtectionPlanRequest } from "../../domain/requests.ts";
import { toNormalForm } from "../codec/normal-form.ts";
import { answerBulk } from "./bulk.ts";
import { keyAccessMembers, planMembers, resolutionMembers } from "./protection.ts";

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
          planProtection(
            { ...dependencies, ledger },
            identity,
            toNormalForm<PlanProtectionRequest, ProtectionPlanRequest>(
              PlanProtectionRequestSchema,
              item as PlanProtectionRequest,
            ),
          ),
        ...decisions(request),
        membersOf: planMembers,
      }),
    resolvePolicies: (request, context) =>
      answerBulk(service, dependencies, context, {
        handle: (item, identity, ledger) =>
          resolvePolicy(
            { ...dependencies, ledger },
            identity,
            toNormalForm<ResolvePolicyRequest, PolicyResolveRequest>(
              ResolvePolicyRequestSchema,
              item as ResolvePolicyRequest,
            ),
          ),
        ...decisions(request),
        membersOf: resolutionMembers,
      }),
    planKeyAccesses: (request, context) =>
      answerBulk(service, dependencies, context, {
        handle: (item, identity, ledger) =>
          planKeyAccess(
            { ...dependencies, ledger },
            identity,
            toNormalForm<PlanKeyAccessRequest, KeyAccessRequest>(
              PlanKeyAccessRequestSchema,
              item as PlanKeyAccessRequest,
            ),
          ),
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
