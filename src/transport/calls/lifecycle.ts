/** The lifecycle of a call, on every protocol: its id and start time, and the report at its end. */
import type { InboundRequest } from "../../auth/inbound-request.ts";
import type { Clock } from "../../base/clock.ts";
import { newRequestId, parseRequestId, type RandomFill, type RequestId } from "../../base/ids.ts";
import type { Tracing } from "../../telemetry/tracing/tracing.ts";
import type { AdmissionTicket } from "../admission/admission.ts";
import { headerValues } from "../http/inbound-request.ts";
import type { Call } from "./call.ts";
import { callerGone } from "./deadline.ts";

/** One finished exchange, for the log and the metrics. */
export interface Answered {
  readonly call: Call;
  readonly method: string;
  /** Path without its query, which could carry anything. */
  readonly path: string;
  readonly httpVersion: string;
  /** Of the answer; 499 where the caller was gone before all of it was out. */
  readonly status: number;
  readonly durationMs: number;
  readonly remoteAddress: string;
}

/** What a call's lifecycle needs. */
export interface CallLifecycle {
  readonly clock: Clock;
  readonly random: RandomFill;
  /** Called for every request once its answer is out, or its caller gone. */
  readonly onAnswered: (exchange: Answered) => void;
  /** Absent where nothing is traced. */
  readonly tracing?: Pick<Tracing, "begin"> | undefined;
}

/**
 * A call whose headers are in. Its request id is the caller's own, if it sent exactly one good one.
 *
 * @param ticket where it waited for its turn, if it did
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

/** Headers of every answer to the call. */
export function answerHeaders({ requestId }: Call): Readonly<Record<string, string>> {
  return { "x-request-id": requestId, "cache-control": "no-store" };
}

/** The exchange is over. `status` is undefined where its answer did not get out. */
export function endCall(
  call: Call,
  { method, url, remoteAddress }: InboundRequest,
  httpVersion: string,
  status: number | undefined,
  { clock, onAnswered }: CallLifecycle,
): void {
  // Whatever the answer was going to be, nobody has all of it.
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

/** The path of a URL as it was sent. */
export function pathOf(url: string): string {
  const query = url.indexOf("?");
  return query === -1 ? url : url.slice(0, query);
}
