/** What the records of all answers have in common. */
import type { Caller } from "../base/caller.ts";
import type { RecordId, RequestId } from "../base/ids.ts";
import type { JsonObject } from "../base/json.ts";
import type { Span } from "../base/trace.ts";
import type { NewRecord } from "../ledger/ports/record.ts";
import type { PolicyDecision, PolicyQuery } from "../policy/model/decision.ts";
import { type RecordedRoute, recordedPath } from "./routes.ts";

export interface CallIdentity {
  readonly caller: Caller;
  readonly requestId: RequestId;
  /** Key under which the caller may retry the call: 1 to 128 visible characters. */
  readonly idempotencyKey?: string | undefined;
  /** Aborted when the answer is no longer awaited, with the error to answer; absent if that cannot happen. */
  readonly signal?: AbortSignal;
  readonly span?: Span | undefined;
  /** Called after the decision of this call is durable. Must return at once and must not throw. */
  readonly onDecided?: (made: DecisionMade) => void;
}

export interface DecisionMade {
  readonly query: PolicyQuery;
  readonly decision: PolicyDecision;
  readonly decisionId: RecordId;
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
