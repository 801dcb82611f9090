/** What the decision routes ask of policy, as a pure function of the recorded request. */
import type { KeyAccessOperation } from "../base/vocabulary.ts";
import type { Claimed, PolicyAction, PolicyQuery } from "../policy/model/decision.ts";
import { claimedRows } from "../policy/model/input-table.ts";
import type { EvaluationRequest, KeyAccessRequest, PolicyResolveRequest, ProtectionPlanRequest } from "./requests.ts";

export type DecisionRequest =
  | { readonly route: "protection-plan"; readonly request: ProtectionPlanRequest }
  | { readonly route: "policy-resolve"; readonly request: PolicyResolveRequest }
  | { readonly route: "key-access-plan"; readonly request: KeyAccessRequest }
  | { readonly route: "evaluation"; readonly request: EvaluationRequest };

/** The question without the caller. */
export type RequestQuery = Pick<PolicyQuery, "action" | "claimed" | "onBehalfOf" | "understoodObligations">;

const keyActions: Readonly<Record<KeyAccessOperation, PolicyAction>> = {
  wrap: "wrap",
  unwrap: "unwrap",
  rewrap: "rewrapKey",
};

/** Claimed inputs, each a member of the request by the same name, if the request has it. */
const claimedNames = Object.keys(claimedRows) as readonly (keyof Claimed)[];

/** Returns the action, the caller's claims as policies see them, and the obligations that the caller understands. */
export function queryOf(asked: DecisionRequest): RequestQuery {
  const { route, request } = asked;
  const { content_digest, understood_obligations: understoodObligations } = request;
  const claimed: Partial<Record<keyof Claimed, unknown>> = { content_digest_present: content_digest !== undefined };
  const given: Partial<Claimed> = request;
  for (const name of claimedNames) if (given[name] !== undefined) claimed[name] = given[name];
  if (route === "protection-plan" && request.preferred_artifact_profile !== undefined)
    claimed.artifact_profile = request.preferred_artifact_profile;
  const onBehalfOf = route === "evaluation" ? request.on_behalf_of : undefined;
  return {
    action: route === "key-access-plan" ? keyActions[request.operation] : request.operation,
    claimed: claimed as Claimed,
    ...(onBehalfOf !== undefined && { onBehalfOf }),
    ...(understoodObligations !== undefined && { understoodObligations }),
  };
}
