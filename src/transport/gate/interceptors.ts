/** What runs around every handler, the outermost first; `codec/validate.ts` is the last. */
import type { Interceptor } from "@connectrpc/connect";
import { ServiceError } from "../../base/errors.ts";
import { type Call, callOf, type ReceiptDetail } from "../calls/call.ts";
import { withinDeadline } from "../calls/deadline.ts";
import { toConnectError, toServiceError } from "../calls/errors.ts";

/**
 * Outermost interceptor: whatever a handler or an inner interceptor throws becomes a refusal, is noted on the call
 * for the log line, and leaves as a Connect error with its details.
 */
export function reportErrors(service: string): Interceptor {
  return (next) => async (request) => {
    try {
      return await next(request);
    } catch (thrown) {
      const call = callOf({ values: request.contextValues });
      const refusal = toServiceError(thrown);
      call.refusal = refusal;
      throw toConnectError(service, call.requestId, refusal);
    }
  };
}

/**
 * Answers as soon as the deadline passes, whatever the handler is waiting for. A record that was on its way to the
 * store may still become durable: it was not acknowledged, and a retry is the caller's choice.
 */
export const enforceDeadline: Interceptor = (next) => (request) => withinDeadline(() => next(request), request.signal);

/** Holds the items of bulk calls to quotas. */
export function countItems(take: (rpc: string, call: Call, signal: AbortSignal) => Promise<void>): Interceptor {
  return (next) => async (request) => {
    const call = callOf({ values: request.contextValues });
    if (call.items !== undefined && call.rpc !== undefined) await take(call.rpc, call, request.signal);
    return next(request);
  };
}

const idempotencyHeader = "idempotency-key";
/** Visible ASCII. A header that is sent twice is joined with a space, and so refused. */
const idempotencyKey = /^[\x21-\x7e]{1,128}$/;
const receiptDetails: readonly string[] = ["full", "brief", "none"] satisfies ReceiptDetail[];
const bulkReceiptDetails: readonly string[] = ["full", "brief", "range", "none"] satisfies ReceiptDetail[];

/**
 * Notes what the caller asks for in headers (gRPC: metadata): `idempotency-key`, and `receipt` under the deployment's
 * prefix. Refuses values that are none, and never repeats them.
 */
export function readCallOptions(headerPrefix: string): Interceptor {
  const receiptHeader = `${headerPrefix}receipt`;
  return (next) => (request) => {
    const call = callOf({ values: request.contextValues });
    const key = headerOf(call, idempotencyHeader);
    if (key !== undefined) {
      if (!idempotencyKey.test(key)) throw refuse(idempotencyHeader, "must be 1 to 128 visible characters");
      call.idempotencyKey = key;
    }
    const detail = headerOf(call, receiptHeader);
    if (detail !== undefined) {
      const known = call.items === undefined ? receiptDetails : bulkReceiptDetails;
      if (!known.includes(detail)) throw refuse(receiptHeader, `must be ${known.slice(0, -1).join(", ")} or none`);
      call.receiptDetail = detail as ReceiptDetail;
    }
    return next(request);
  };
}

/**
 * The values of a header as `Headers` joins them: without the spaces around each, with a comma and a space between them.
 * Looked for alone: all headers of a call would take longer than the rest of its way to the handler.
 */
function headerOf({ headerValues }: Call, name: string): string | undefined {
  const values = headerValues(name);
  if (values.length === 0) return undefined;
  return new Headers(values.map((value): [string, string] => [name, value])).get(name) ?? undefined;
}

function refuse(header: string, message: string): ServiceError {
  const violation = { field: "", rule: "http.headers", message: `header ${header} ${message}` };
  return new ServiceError("invalid_request", violation.message, { violations: [violation] });
}
