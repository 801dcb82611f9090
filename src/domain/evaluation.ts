/** Answers AuthZEN questions: whether a subject, who need not be the caller, may do something. */
import type { Caller } from "../base/caller.ts";
import { invalidRequests, maxViolations, ServiceError, type Violation } from "../base/errors.ts";
import type { ProtectionOperation } from "../base/vocabulary.ts";
import type { PolicyAction } from "../policy/model/decision.ts";
import { policyActions } from "../policy/model/schema.ts";
import { type BulkCall, type BulkLedger, handleAll, type StopRule } from "./bulk.ts";
import { type Decided, type DecisionDependencies, decide, scopedRoute } from "./decision.ts";
import type { Deployment, RecordingLedger } from "./deployment.ts";
import { evaluationRequest, type Question } from "./evaluation-request.ts";
import type { CallIdentity } from "./record.ts";
import type { EvaluationRequest } from "./requests.ts";
import { union } from "./routes.ts";
import { keyReferenceViolations, operationViolations, profileViolations, servedOperation } from "./support.ts";

/** The scope to ask on behalf of another subject. Policy must permit it as well. */
export const delegationScope = "decisions.delegate";

/** When a call skips its remaining questions. */
export const evaluationsSemantics = ["execute_all", "deny_on_first_deny", "permit_on_first_permit"] as const;
export type EvaluationsSemantic = (typeof evaluationsSemantics)[number];

export interface Evaluations {
  /**
   * Prepares the questions, with pauses between them.
   *
   * @throws ServiceError `invalid_request`, with the paths that the questions give
   */
  prepare(
    caller: Caller,
    questions: readonly PathedQuestion[],
    pause: BulkCall<Decided>["pause"],
  ): Promise<readonly EvaluationRequest[]>;
  /**
   * Returns the scopes that the questions need, those of their routes included.
   *
   * @throws ServiceError `missing_scope` for questions about another subject under a session token, whatever its scopes
   */
  scopesFor(caller: Caller, requests: readonly EvaluationRequest[]): readonly string[];
  /**
   * Evaluates the questions in order, with pauses between them, and records each; one durable commit carries all
   * records. Rejects with `ServiceError`, such as `store_unavailable`; then no question is answered.
   */
  evaluate(
    call: CallIdentity,
    requests: readonly EvaluationRequest[],
    pause: BulkCall<Decided>["pause"],
    stopsAfter?: StopRule,
  ): Promise<readonly Decided[]>;
  /** Names of the supported actions: the six, then those that policies map to one of them. */
  actionNames(): readonly string[];
}

export interface PathedQuestion {
  readonly question: Question;
  /** Returns the path, in the request, of a member of the question. */
  readonly at: (field: string) => string;
}

/** Returns the rule of a semantic; undefined if all questions are evaluated. */
export function stopRuleOf(semantic: EvaluationsSemantic): StopRule | undefined {
  if (semantic === "execute_all") return undefined;
  return (isAllowed) => isAllowed === (semantic === "permit_on_first_permit");
}

/** Questions prepared in one turn. */
const readAtOnce = 16;

export type EvaluationDependencies = DecisionDependencies & { readonly ledger: BulkLedger };

export function createEvaluations(dependencies: EvaluationDependencies): Evaluations {
  const { deployment, engine } = dependencies;
  const actionOf = (name: string) => policyActions.find((action) => action === name) ?? engine.actionNamed(name);
  const ask = (call: CallIdentity, request: EvaluationRequest, ledger: RecordingLedger) =>
    decide({ ...dependencies, ledger }, call, { route: "evaluation", request });
  return {
    async prepare(caller, questions, pause) {
      const violations: Violation[] = [];
      const requests: EvaluationRequest[] = [];
      for (const [i, { question, at }] of questions.entries()) {
        if (i > 0 && i % readAtOnce === 0) await pause();
        const read = evaluationRequest(question, caller, actionOf);
        const wrong = "operation" in read ? unsupported(deployment, read) : read;
        violations.push(...wrong.map((violation) => ({ ...violation, field: at(violation.field) })));
        if ("operation" in read) requests.push(read);
        if (violations.length >= maxViolations) break;
      }
      if (violations.length > 0) throw invalidRequests(violations.slice(0, maxViolations));
      return requests;
    },
    scopesFor({ authSource }, requests) {
      if (authSource === "session_token" && requests.some(({ on_behalf_of }) => on_behalf_of !== undefined)) {
        const scopes = { requiredScopes: [delegationScope], missingScopes: [delegationScope] };
        throw new ServiceError("missing_scope", "a session token can only ask about its own client", scopes);
      }
      return requests.reduce<readonly string[]>((scopes, request) => {
        const own = deployment.scopes.required(scopedRoute({ route: "evaluation", request }));
        return union(union(scopes, own), request.on_behalf_of === undefined ? [] : [delegationScope]);
      }, []);
    },
    async evaluate(call, requests, pause, stopsAfter) {
      const { ledger } = dependencies;
      const [only] = requests;
      if (only === undefined) return [];
      if (requests.length === 1) return [await ask(call, only, ledger)];
      const results = await handleAll(ledger, call, {
        count: requests.length,
        handle: (index, identity, own) => ask(identity, requests[index] as EvaluationRequest, own),
        ...(stopsAfter !== undefined && { stopsAfter }),
        pause,
      });
      return results.flatMap((result) => {
        if (result !== undefined && "refusal" in result) throw result.refusal;
        return result === undefined ? [] : [result.answer];
      });
    },
    actionNames() {
      const isSupported = (name: string) => {
        const operation = actionOf(name);
        return operation !== undefined && operationViolations(deployment, protectionOf(operation)).length === 0;
      };
      return [...policyActions, ...engine.actionNames].filter(isSupported);
    },
  };
}

/** Violations for what the deployment does not support. */
function unsupported(deployment: Deployment, request: EvaluationRequest): readonly Violation[] {
  const { operation, artifact_profile, key_reference } = request;
  const ofResource = [
    ...profileViolations(deployment, "artifact_profile", artifact_profile),
    ...keyReferenceViolations(deployment, key_reference),
  ];
  return [
    ...operationViolations(deployment, protectionOf(operation)).map((violation) => ({
      ...violation,
      field: "action.name",
    })),
    ...ofResource.map((violation) => ({ ...violation, field: `resource.properties.${violation.field}` })),
  ];
}

/** The operation that must be supported for the action. */
function protectionOf(action: PolicyAction): ProtectionOperation {
  return action === "rewrapKey" ? "rewrap" : isKeyOperation(action) ? servedOperation[action] : action;
}

function isKeyOperation(operation: PolicyAction): operation is "wrap" | "unwrap" {
  return operation === "wrap" || operation === "unwrap";
}
