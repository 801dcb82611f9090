import { type ContextValues, createContextKey } from "@connectrpc/connect";
import type { SessionPeer } from "../../auth/confirmation.ts";
import type { Caller } from "../../base/caller.ts";
import type { Clock } from "../../base/clock.ts";
import { ServiceError } from "../../base/errors.ts";
import type { RandomFill, RequestId } from "../../base/ids.ts";
import type { InboundRequest } from "../../base/inbound-request.ts";
import type { QuotaHold } from "../../domain/quotas.ts";
import type { DecisionMade } from "../../domain/record.ts";
import type { AdmissionTicket } from "../../http/admission.ts";
import { callerGone } from "../../http/deadline.ts";
import { requestIdOf } from "../../http/inbound-request.ts";
import type { CallSpan, Tracing } from "../../telemetry/tracing.ts";
import type { ItemSource } from "../codec/items.ts";
import type { Feed } from "./inlet.ts";

export type Protocol = "rest" | "connect" | "grpc" | "grpc_web";

/**
 * `full`: all members. `cose`: these, and the COSE receipt. `brief`: without the members that repeat the record.
 * `range`, for bulk calls only: one receipt for all items. `none`: no receipt.
 */
export const receiptDetails = ["full", "brief", "cose", "range", "none"] as const;
export type ReceiptDetail = (typeof receiptDetails)[number];

/** State of one call, from its headers on. The links of the chain fill it in; the log line reads it. */
export interface Call {
  readonly requestId: RequestId;
  /** When the headers were in: milliseconds of the clock. */
  readonly receivedAtMs: number;
  /** The request as the network delivered it: headers and peer. */
  readonly inbound: InboundRequest;
  readonly ticket?: AdmissionTicket | undefined;
  /** Absent if nothing is traced. */
  readonly span?: CallSpan | undefined;
  /** Called if the caller goes away before the answer is written. */
  onGone?: () => void;
  protocol?: Protocol;
  /** `Service/Method`, once routed. */
  rpc?: string;
  /** Set by the gate after authentication. */
  caller?: Caller;
  /** Set by the gate of the session route, whose caller has no session yet. */
  sessionPeer?: SessionPeer;
  /** Default: full. */
  receiptDetail?: ReceiptDetail;
  /** Key under which the caller may retry the call. */
  idempotencyKey?: string | undefined;
  /** Quota granted to the call, if the tenant has quotas. */
  quotas?: QuotaHold | undefined;
  /** Headers or metadata that every answer carries from then on. */
  announced?: Readonly<Record<string, string>>;
  /** Bytes that the body holds of the memory for bodies. */
  bodyBytes?: number;
  /** Items of a bulk call, set when its body has been read. */
  items?: ItemSource;
  /** Items of a bulk call that may have left a record. */
  recordedItems?: number;
  /** Items that a stream has settled. */
  streamedItems?: number;
  /** Source of a stream of items. */
  feed?: Feed;
  decision?: DecisionMade;
  refusal?: ServiceError;
}

export const kCall = createContextKey<Call | undefined>(undefined, { description: "call" });

export function callOf(context: { readonly values: ContextValues }): Call {
  const call = context.values.get(kCall);
  if (call === undefined) throw new ServiceError("internal", "handler invoked outside the chain");
  return call;
}

/** Returns the authenticated caller of a handler's context. Throws if the gate did not run. */
export function callerOf(context: { readonly values: ContextValues }): Caller {
  const { caller } = callOf(context);
  if (caller === undefined) throw new ServiceError("internal", "handler invoked before the gate");
  return caller;
}

// Begin and end of a call, on every protocol: its id, its start time, and its report.

/** A finished exchange, for the log and the metrics. */
export interface Answered {
  readonly call: Call;
  readonly httpVersion: string;
  /** Status of the answer; 499 if the caller left before it was complete. */
  readonly status: number;
  readonly durationMs: number;
}

export interface CallLifecycle {
  readonly clock: Clock;
  readonly random: RandomFill;
  /** Called for every request when its answer is complete or its caller has left. */
  readonly onAnswered: (exchange: Answered) => void;
  readonly tracing?: Pick<Tracing, "begin"> | undefined;
}

/**
 * Creates the call of a request.
 *
 * @param ticket if the call was admitted through a queue
 */
export function beginCall(
  inbound: InboundRequest,
  { clock, random, tracing }: CallLifecycle,
  ticket?: AdmissionTicket,
): Call {
  const waitedMs = ticket?.waitedMs ?? 0;
  return {
    requestId: requestIdOf(inbound, clock, random),
    receivedAtMs: clock.now() - Math.round(waitedMs),
    inbound,
    span: tracing?.begin(inbound, waitedMs),
    ticket,
  };
}

/** Notes the protocol and the method of a call. */
export function route(call: Call, protocol: Protocol, rpc: string): Call {
  call.protocol = protocol;
  call.rpc = rpc;
  return call;
}

export function answerHeaders({ requestId }: Call): Readonly<Record<string, string>> {
  return { "x-request-id": requestId, "cache-control": "no-store" };
}

/** Reports the end of the exchange. `status` is undefined if the answer was not sent completely. */
export function endCall(
  call: Call,
  httpVersion: string,
  status: number | undefined,
  { clock, onAnswered }: CallLifecycle,
): void {
  // The caller has not received all of the answer.
  if (status === undefined) call.refusal ??= callerGone;
  const durationMs = clock.now() - call.receivedAtMs;
  onAnswered({ call, httpVersion, status: status ?? callerGone.httpStatus, durationMs });
  if (status === undefined) call.onGone?.();
}
