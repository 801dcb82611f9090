/**
 * What the three decision routes ask of policy. A pure function of what is recorded, so that a recorded decision can be
 * asked for again and is asked for in the same way.
 */
import type { KeyAccessOperation } from "../base/vocabulary.ts";
import type { Claimed, PolicyAction } from "../policy/decision.ts";
import type { Described, KeyAccessRequest, PolicyResolveRequest, ProtectionPlanRequest } from "./requests.ts";

/** A request of one of the routes that decide. */
export type DecisionRequest =
  | { readonly route: "protection-plan"; readonly request: ProtectionPlanRequest }
  | { readonly route: "policy-resolve"; readonly request: PolicyResolveRequest }
  | { readonly route: "key-access-plan"; readonly request: KeyAccessRequest };

/** The question, without who asks. */
export interface Question {
  readonly action: PolicyAction;
  readonly claimed: Claimed;
}

const keyActions: Readonly<Record<KeyAccessOperation, PolicyAction>> = {
  wrap: "wrap",
  unwrap: "unwrap",
  rewrap: "rewrapKey",
};

/** The action, and what the caller claims as policies see it. */
export function questionOf({ route, request }: DecisionRequest): Question {
  switch (route) {
    case "protection-plan":
      return {
        action: request.operation,
        claimed: claimedBy(request, {
          artifact_profile: request.preferred_artifact_profile,
          content_size_bytes: request.content_size_bytes,
        }),
      };
    case "policy-resolve":
      return {
        action: request.operation,
        claimed: claimedBy(request, { content_size_bytes: request.content_size_bytes }),
      };
    case "key-access-plan":
      return {
        action: keyActions[request.operation],
        claimed: claimedBy(request, {
          artifact_profile: request.artifact_profile,
          key_reference: request.key_reference,
        }),
      };
  }
}

type Optional = Pick<Claimed, "artifact_profile" | "content_size_bytes" | "key_reference">;

function claimedBy(
  request: Described & { readonly content_digest?: string },
  {
    artifact_profile,
    content_size_bytes,
    key_reference,
  }: { readonly [Name in keyof Optional]: Optional[Name] | undefined },
): Claimed {
  return {
    workload: request.workload,
    resource: request.resource,
    ...(request.purpose !== undefined && { purpose: request.purpose }),
    labels: request.labels,
    attributes: request.attributes,
    content_digest_present: request.content_digest !== undefined,
    ...(artifact_profile !== undefined && { artifact_profile }),
    ...(content_size_bytes !== undefined && { content_size_bytes }),
    ...(key_reference !== undefined && { key_reference }),
  };
}
