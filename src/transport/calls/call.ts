import { type ContextValues, createContextKey } from "@connectrpc/connect";
import type { InboundRequest } from "../../auth/inbound-request.ts";
import type { SessionPeer } from "../../auth/session-peer.ts";
import type { Caller } from "../../base/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import type { RequestId } from "../../base/ids.ts";
import type { QuotaHold } from "../../domain/quotas.ts";
import type { DecisionMade } from "../../domain/record.ts";
import type { CallSpan } from "../../telemetry/tracing/tracing.ts";
import type { AdmissionTicket } from "../admission/admission.ts";
import type { ItemSource } from "../codec/items.ts";

/** The wire format that carried a call. */
export type Protocol = "rest" | "connect" | "grpc" | "grpc_web";

/**
 * `brief` leaves out what shows the record itself, `none` leaves out the receipt. `range`, of bulk calls alone, is one
 * receipt for all items.
 */
export type ReceiptDetail = "full" | "brief" | "none" | "range";

/**
 * One call on its way through the transport. Made when the headers are in, before anything else happens; the links
 * of the chain fill in what they learn, and the log line at the end is written from it.
 */
export interface Call {
  readonly requestId: RequestId;
  /** Clock reading, in milliseconds, when the headers were in. */
  readonly receivedAtMs: number;
  /** Every value of a request header, in order. The name is lowercase. */
  readonly headerValues: InboundRequest["headerValues"];
  /** Its place among the calls that are worked on. */
  readonly ticket?: AdmissionTicket | undefined;
  /** Absent where nothing is traced. */
  readonly span?: CallSpan | undefined;
  protocol?: Protocol;
  /** `Service/Method`, once routed. */
  rpc?: string;
  /** Set by the gate, once the caller is authenticated. */
  caller?: Caller;
  /** Set by the gate of the session route, which has no caller yet. */
  sessionPeer?: SessionPeer;
  /** How much of a receipt the caller wants; all of it unless it says so. */
  receiptDetail?: ReceiptDetail;
  /** Under which the caller may send the call again. */
  idempotencyKey?: string | undefined;
  /** What it was granted of its tenant's quotas, where there are any. */
  quotas?: QuotaHold;
  /** What every answer to it says from then on, as headers or metadata. */
  announced?: Readonly<Record<string, string>>;
  /** Bytes that its body has of the memory for bodies. */
  bodyBytes?: number;
  /** Of a bulk call, once its body is there: what it asks. */
  items?: ItemSource;
  /** Items of a bulk call that may have left a record. */
  recordedItems?: number;
  /** Items that a stream has had settled. */
  streamedItems?: number;
  /** What its items were granted of its tenant's quotas, besides what the call itself was. */
  itemQuotas?: QuotaHold;
  /** The decision that was recorded for it, if one was. */
  decision?: DecisionMade;
  /** The refusal that was answered, if one was. */
  refusal?: ServiceError;
}

/** Where interceptors and handlers find the call. */
export const kCall = createContextKey<Call | undefined>(undefined, { description: "call" });

/** The call behind a handler's context. */
export function callOf(context: { readonly values: ContextValues }): Call {
  const call = context.values.get(kCall);
  if (call === undefined) throw new ServiceError("internal", "handler invoked outside the chain");
  return call;
}

/** The authenticated caller behind a handler's context. Throws where the gate did not run: never by a request. */
export function callerOf(context: { readonly values: ContextValues }): Caller {
  const { caller } = callOf(context);
  if (caller === undefined) throw new ServiceError("internal", "handler invoked before the gate");
  return caller;
}
