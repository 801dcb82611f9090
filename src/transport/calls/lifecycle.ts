/** Begin and end of a call, on every protocol: its id, its start time, and its report. */
import type { Clock } from "../../base/clock.ts";
import { newRequestId, parseRequestId, type RandomFill, type RequestId } from "../../base/ids.ts";
import type { InboundRequest } from "../../base/inbound-request.ts";
import type { AdmissionTicket } from "../../http/admission.ts";
import { callerGone } from "../../http/deadline.ts";
import { headerValues, pathOf } from "../../http/inbound-request.ts";
import type { Tracing } from "../../telemetry/tracing.ts";
import type { Call } from "./call.ts";

/** A finished exchange, for the log and the metrics. */
export interface Answered {
  readonly call: Call;
  readonly method: string;
  /** Path without the query, which may hold anything. */
  readonly path: string;
  readonly httpVersion: string;
  /** Status of the answer; 499 if the caller left before it was complete. */
  readonly status: number;
  readonly durationMs: number;
  readonly remoteAddress: string;
}

export interface CallLifecycle {
  readonly clock: Clock;
  readonly random: RandomFill;
  /** Called for every request when its answer is complete or its caller has left. */
  readonly onAnswered: (exchange: Answered) => void;
  readonly tracing?: Pick<Tracing, "begin"> | undefined;
}

/**
 * Creates the call of a request. Uses the caller's request id if there is exactly one valid header.
 *
 * @param ticket if the call was admitted through a queue
 */
export function beginCall(
  rawHeaders: readonly string[],
  { clock, random, tracing }: CallLifecycle,
  ticket?: AdmissionTicket,
): Call {
  const requestId = requestIdOf(rawHeaders) ?? newRequestId(clock, random);
  const waitedMs = ticket?.waitedMs ?? 0;
  const receivedAtMs = clock.now() - Math.round(waitedMs);
  const valuesOf = (name: string) => headerValues(rawHeaders, name);
  return { requestId, receivedAtMs, headerValues: valuesOf, span: tracing?.begin(valuesOf, waitedMs), ticket };
}

function requestIdOf(rawHeaders: readonly string[]): RequestId | undefined {
  const [value, ...others] = headerValues(rawHeaders, "x-request-id");
  return value === undefined || others.length > 0 ? undefined : parseRequestId(value);
}

export function answerHeaders({ requestId }: Call): Readonly<Record<string, string>> {
  return { "x-request-id": requestId, "cache-control": "no-store" };
}

/** Reports the end of the exchange. `status` is undefined if the answer was not sent completely. */
export function endCall(
  call: Call,
  { method, url, remoteAddress }: InboundRequest,
  httpVersion: string,
  status: number | undefined,
  { clock, onAnswered }: CallLifecycle,
): void {
  // The caller has not received all of the answer.
  if (status === undefined) call.refusal ??= callerGone;
  onAnswered({
    call,
    method,
    path: pathOf(url),
    httpVersion,
    status: status ?? callerGone.httpStatus,
    durationMs: clock.now() - call.receivedAtMs,
    remoteAddress,
  });
}
