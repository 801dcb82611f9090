/** The step that all deciding routes share: evaluate the policy, record the decision, and only then answer. */
import type { Caller } from "../base/caller.ts";
import { ServiceError } from "../base/errors.ts";
import { newRecordId, type RecordId } from "../base/ids.ts";
import type { JsonObject, JsonValue } from "../base/json.ts";
import { type Span, traced } from "../base/trace.ts";
import type { KeyAccessOperation, SdkRoute } from "../base/vocabulary.ts";
import { artifactNames } from "../ledger/artifacts/registrations.ts";
import type { Receipt } from "../ledger/ports/ledger.ts";
import type {
  Claimed,
  Guidance,
  Obligation,
  PolicyAction,
  PolicyDecision,
  PolicyEngine,
  PolicyQuery,
} from "../policy/model/decision.ts";
import { claimedRows } from "../policy/model/input-table.ts";
import { actionGroups } from "../policy/model/schema.ts";
import type { DomainDependencies } from "./deployment.ts";
import { type CallIdentity, type DecisionMade, newRecord } from "./record.ts";
import { lookUpRegistered, reliedOnMembers } from "./registered.ts";
import type { EvaluationRequest, KeyAccessRequest, PolicyResolveRequest, ProtectionPlanRequest } from "./requests.ts";
import { union } from "./routes.ts";

export interface DecisionDependencies extends DomainDependencies {
  readonly engine: PolicyEngine;
  /** Called after each decision is durable. Must return at once and must not throw. */
  readonly observe?: (made: DecisionMade) => void;
}

export interface Decided {
  readonly decisionId: RecordId;
  readonly allow: boolean;
  readonly policyRevision: string;
  /** Policies that decided; empty if the deployment does not show them. */
  readonly reasons: readonly string[];
  /** Members of the request that policy read. */
  readonly inputs: readonly string[];
  readonly guidance: Guidance;
  readonly obligations: readonly Obligation[];
  /** Obligations that prevented an allow: the request does not say that it understands them. */
  readonly unmet: readonly Obligation[];
  /** Scopes of the route, default ones included, and those that policy requires in addition. */
  readonly requiredScopes: readonly string[];
  readonly receipt: Receipt;
}

/**
 * Decides and records. Resolves when the record is durable. Looks up the artifact's registrations first if a policy
 * that could apply reads them.
 *
 * @throws ServiceError `store_unavailable`, `policy_unavailable`, or the reason of the call's signal: then nothing was
 *   decided
 */
export async function decide(
  { deployment, engine, observe, ledger, clock, random }: DecisionDependencies,
  call: CallIdentity,
  asked: DecisionRequest,
): Promise<Decided> {
  const { route, request } = asked;
  const question = { caller: call.caller, ...queryOf(asked) };
  const namesArtifact = request.artifact_digest !== undefined || request.artifact_cid !== undefined;
  const isNeeded = namesArtifact && engine.readsRegistered(question);
  const lookedUp = isNeeded ? await lookUpRegistered(ledger, call, artifactNames(request)) : undefined;
  if (isNeeded) call.signal?.throwIfAborted();
  // No waiting from here on: policies may have been replaced during the lookup, and these decide.
  requireSameAction(engine, asked);
  const known = isNeeded && engine.readsRegistered(question) ? lookedUp : undefined;
  const query = known?.registered === undefined ? question : { ...question, registered: known.registered };
  const decision = decideTraced(engine, query, call.span);
  const { guidance } = decision;
  const decisionId = newRecordId(clock, random);
  const reliedOn = known && reliedOnMembers(known.reliedOn);
  const outcome = decisionOutcome(decision, call.caller, reliedOn, deployment.showReasons ? undefined : true);
  const record = newRecord("decision", decisionId, call, route, request, outcome);
  call.span?.set({ "svc.decision.id": decisionId });
  const { receipt } = await traced(call.span, "ledger.append", (span) =>
    ledger.append({ ...record, policyRevision: decision.policyRevision }, span),
  );
  const made = { route, query, decision, decisionId, isSearch: call.isSearch === true, span: call.span };
  observe?.(made);
  call.onDecided?.(made);
  return {
    decisionId,
    allow: decision.allow,
    policyRevision: decision.policyRevision,
    reasons: deployment.showReasons ? decision.reasons : [],
    inputs: decision.inputs,
    guidance,
    obligations: decision.obligations,
    unmet: decision.unmet ?? [],
    requiredScopes: union(deployment.scopes.required(scopedRoute(asked)), guidance.required_scopes),
    receipt,
  };
}

/** Policies also map names of actions to operations, and may have been replaced while the call waited. */
function requireSameAction(engine: PolicyEngine, { route, request }: DecisionRequest): void {
  if (route !== "evaluation" || request.requested_action === undefined) return;
  if (engine.actions.get(request.requested_action) === request.operation) return;
  const message = "The meaning of the action changed during the call: retry.";
  throw new ServiceError("policy_unavailable", message, { retryAfterSeconds: 1 });
}

/** The route whose scopes a question needs: for AuthZEN, the SDK's route that decides the same operation. */
export function scopedRoute({ route, request }: DecisionRequest): SdkRoute {
  if (route !== "evaluation") return route;
  return actionGroups.keyOperation?.includes(request.operation) ? "key-access-plan" : "policy-resolve";
}

function decideTraced(engine: PolicyEngine, query: PolicyQuery, parent: Span | undefined): PolicyDecision {
  if (parent === undefined) return engine.decide(query);
  const span = parent.child("policy.decide");
  try {
    const decision = engine.decide(query);
    const { allow, policyRevision } = decision;
    span.set({ "svc.policy.action": query.action, "svc.policy.revision": policyRevision, "svc.decision.allow": allow });
    span.end();
    return decision;
  } catch (error) {
    span.end(error);
    throw error;
  }
}

/**
 * The recorded outcome, its members in the order of canonical JSON. It includes the caller's attributes and scopes
 * because policies read them: the decision could not be evaluated again without them. `withheld` is true if the answer
 * omits the reasons, so that such an answer differs from one that lost them in transit.
 */
export function decisionOutcome(
  decision: PolicyDecision,
  { attributes, scopes }: Caller,
  registered: JsonValue | undefined,
  withheld: JsonValue | undefined,
): JsonObject {
  return {
    alerts: decision.alerts.length === 0 ? undefined : decision.alerts,
    allow: decision.allow,
    caller_attributes: attributes,
    caller_scopes: scopes,
    guidance: decision.guidance,
    obligations: decision.obligations.length === 0 ? undefined : decision.obligations,
    policy_revision: decision.policyRevision,
    reasons: decision.reasons,
    reasons_withheld: withheld,
    registered,
  };
}

// What the decision routes ask of policy, as a pure function of the recorded request.

export type DecisionRequest =
  | { readonly route: "protection-plan"; readonly request: ProtectionPlanRequest }
  | { readonly route: "policy-resolve"; readonly request: PolicyResolveRequest }
  | { readonly route: "key-access-plan"; readonly request: KeyAccessRequest }
  | { readonly route: "evaluation"; readonly request: EvaluationRequest };

/** The question without the caller. */
type RequestQuery = Pick<PolicyQuery, "action" | "claimed" | "onBehalfOf" | "understoodObligations">;

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
