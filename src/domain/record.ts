/** What every record of an answer has in common. */
import type { Caller } from "../base/caller.ts";
import type { RecordId, RequestId } from "../base/ids.ts";
import type { JsonObject } from "../base/json.ts";
import type { Span } from "../base/trace.ts";
import type { NewRecord } from "../ledger/ports/record.ts";
import type { PolicyDecision, PolicyQuery } from "../policy/engine/decision.ts";
import { type RecordedRoute, recordedPath } from "./routes.ts";

/** Who asks, and in which call. */
export interface CallIdentity {
  readonly caller: Caller;
  readonly requestId: RequestId;
  /** Under which the caller may send the same call again: 1 to 128 visible characters. */
  readonly idempotencyKey?: string | undefined;
  /** Aborted where nobody waits for the answer any more, with the error to answer; absent where that never is. */
  readonly signal?: AbortSignal;
  /** Of the call; absent where nothing is traced. */
  readonly span?: Span | undefined;
  /** Told of the decision of this call once it is recorded. Returns at once and does not throw. */
  readonly onDecided?: (made: DecisionMade) => void;
}

/** A decision, as it was made. */
export interface DecisionMade {
  readonly query: PolicyQuery;
  readonly decision: PolicyDecision;
  readonly decisionId: RecordId;
  /** Of the call; absent where nothing is traced. */
  readonly span?: Span | undefined;
}

/** A record of this call that lacks only what `kind` asks for besides. */
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
