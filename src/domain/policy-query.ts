/** What the decision routes ask of policy, as a pure function of the recorded request. */
import type { KeyAccessOperation } from "../base/vocabulary.ts";
import type { Claimed, PolicyAction, PolicyQuery } from "../policy/model/decision.ts";
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

/** Returns the action, the caller's claims as policies see them, and the obligations that the caller understands. */
export function queryOf(asked: DecisionRequest): RequestQuery {
  const query = questionOf(asked);
  const { understood_obligations: understoodObligations } = asked.request;
  return understoodObligations === undefined ? query : { ...query, understoodObligations };
}

function questionOf({ route, request }: DecisionRequest): RequestQuery {
  const claimed: Writable<Claimed> = {
    workload: request.workload,
    resource: request.resource,
    labels: request.labels,
    attributes: request.attributes,
    content_digest_present: request.content_digest !== undefined,
  };
  if (request.purpose !== undefined) claimed.purpose = request.purpose;
  if (route === "key-access-plan" || route === "evaluation") {
    if (request.artifact_profile !== undefined) claimed.artifact_profile = request.artifact_profile;
    if (request.key_reference !== undefined) claimed.key_reference = request.key_reference;
  }
  if (route === "key-access-plan") return { action: keyActions[request.operation], claimed };
  if (request.content_size_bytes !== undefined) claimed.content_size_bytes = request.content_size_bytes;
  if (route === "evaluation") {
    const { operation: action, on_behalf_of: onBehalfOf } = request;
    return onBehalfOf === undefined ? { action, claimed } : { action, claimed, onBehalfOf };
  }
  if (route === "protection-plan" && request.preferred_artifact_profile !== undefined)
    claimed.artifact_profile = request.preferred_artifact_profile;
  return { action: request.operation, claimed };
}

type Writable<T> = { -readonly [Name in keyof T]: T[Name] };
