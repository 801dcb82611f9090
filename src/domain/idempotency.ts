/** Idempotent calls: the same payload under the same key gets the first answer. */
import type { JsonObject } from "../base/json.ts";
import { traced } from "../base/trace.ts";
import type { SdkRoute } from "../base/vocabulary.ts";
import type { Appended } from "../ledger/ports/ledger.ts";
import type { Idempotency, NewRecord } from "../ledger/ports/record.ts";
import { requestDigest } from "../ledger/record/record.ts";
import type { RecordingLedger } from "./deployment.ts";
import type { CallIdentity } from "./record.ts";
import { routePath } from "./routes.ts";

/** One recorded answer without its receipt. */
export interface Answering<Answer> {
  readonly call: CallIdentity;
  readonly route: SdkRoute;
  readonly record: NewRecord;
  /** Two calls are the same if this is equal: the request as sent, in normal form. */
  readonly payload: JsonObject;
  /** Plain JSON data. */
  readonly answer: Answer;
}

/**
 * Appends the record and returns the answer; for a retry, the answer to the first call.
 *
 * @throws ServiceError `idempotency_conflict`, and what `Ledger.append` throws
 */
export async function appendOnce<Answer extends object>(
  ledger: RecordingLedger,
  answering: Answering<Answer>,
): Promise<{ readonly answer: Answer; readonly receipt: Appended["receipt"] }> {
  const { call, record, answer } = answering;
  const idempotency = idempotencyOf(answering);
  const { receipt, earlierAnswer } = await traced(call.span, "ledger.append", (span) =>
    ledger.append({ ...record, ...(idempotency !== undefined && { idempotency }) }, span),
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
