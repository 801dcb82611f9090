/** What the records of all answers have in common. */
import type { Caller } from "../base/caller.ts";
import { newRecordId, type RecordId, type RequestId } from "../base/ids.ts";
import type { JsonObject } from "../base/json.ts";
import { type Span, traced } from "../base/trace.ts";
import type { SdkRoute } from "../base/vocabulary.ts";
import type { Appended } from "../ledger/ports/ledger.ts";
import type { Idempotency, NewRecord } from "../ledger/ports/record.ts";
import { requestDigest } from "../ledger/record/record.ts";
import type { PolicyDecision, PolicyQuery } from "../policy/model/decision.ts";
import type { DomainDependencies } from "./deployment.ts";
import { type RecordedRoute, recordedPath, routePath } from "./routes.ts";

export interface CallIdentity {
  readonly caller: Caller;
  readonly requestId: RequestId;
  /** Key under which the caller may retry the call: 1 to 128 visible characters. */
  readonly idempotencyKey?: string | undefined;
  /** Aborted when the answer is no longer awaited, with the error to answer; absent if that cannot happen. */
  readonly signal?: AbortSignal;
  readonly span?: Span | undefined;
  /** Whether its questions are the candidates of a search. */
  readonly isSearch?: boolean;
  /** Called after the decision of this call is durable. Must return at once and must not throw. */
  readonly onDecided?: (made: DecisionMade) => void;
}

export interface DecisionMade {
  readonly route: RecordedRoute;
  readonly query: PolicyQuery;
  readonly decision: PolicyDecision;
  readonly decisionId: RecordId;
  readonly isSearch: boolean;
  readonly span?: Span | undefined;
}

/** Creates a record of this call without the members that only `kind` needs. */
export function newRecord(
  kind: NewRecord["kind"],
  recordId: RecordId,
  { caller, requestId }: CallIdentity,
  route: RecordedRoute,
  request: JsonObject,
  outcome: JsonObject,
): NewRecord {
  return {
    kind,
    recordId,
    tenantId: caller.tenantId,
    requestId,
    caller: { principal_id: caller.principalId, subject: caller.subject, auth_source: caller.authSource },
    route: recordedPath(route),
    request,
    outcome,
  };
}

// Idempotent calls: the same payload under the same key gets the first answer.

/** One recorded answer without its receipt. */
interface Answering<Answer> {
  readonly kind: NewRecord["kind"];
  readonly call: CallIdentity;
  readonly route: SdkRoute;
  readonly request: JsonObject;
  readonly outcome: JsonObject;
  /** Two calls are the same if this is equal: the request as sent, in normal form. */
  readonly payload: JsonObject;
  /** Plain JSON data. */
  readonly answer: Answer;
}

/**
 * Appends the record of a call and returns the answer; for a retry, the answer to the first call.
 *
 * @throws ServiceError `idempotency_conflict`, and what `Ledger.append` throws
 */
export async function appendOnce<Answer extends object>(
  { ledger, clock, random }: Pick<DomainDependencies, "ledger" | "clock" | "random">,
  answering: Answering<Answer>,
): Promise<{ readonly answer: Answer; readonly receipt: Appended["receipt"] }> {
  const { kind, call, route, request, outcome, answer } = answering;
  const record = newRecord(kind, newRecordId(clock, random), call, route, request, outcome);
  const idempotency = idempotencyOf(answering);
  const { receipt, earlierAnswer } = await traced(call.span, "ledger.append", (span) =>
    ledger.append(idempotency === undefined ? record : { ...record, idempotency }, span),
  );
  return { answer: (earlierAnswer as Answer | undefined) ?? answer, receipt };
}

function idempotencyOf({ call, route, payload, answer }: Answering<object>): Idempotency | undefined {
  const { caller, idempotencyKey: key } = call;
  if (key === undefined) return undefined;
  const scope = requestDigest({ principal_id: caller.principalId, route: routePath(route), key });
  return {
    scope: scope.slice(scope.indexOf(":") + 1),
    payloadDigest: requestDigest(payload),
    answer: answer as JsonObject,
  };
}
