/** Interceptors around every handler, the outermost first; `codec/validate.ts` is the last. */
import type { Interceptor } from "@connectrpc/connect";
import { ServiceError } from "../../base/errors.ts";
import { withinDeadline } from "../../http/deadline.ts";
import { type Call, callOf, type ReceiptDetail } from "../calls/call.ts";
import { toConnectError, toServiceError } from "../calls/errors.ts";

/** Outermost interceptor: turns thrown values into refusals, noted on the call, and into Connect errors. */
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
 * Answers as soon as the deadline passes, whatever the handler waits for. A record on its way to the store may still
 * become durable: it was not acknowledged, and the caller decides whether to retry.
 */
export const enforceDeadline: Interceptor = (next) => (request) => withinDeadline(() => next(request), request.signal);

/** Enforces quotas for the items of bulk calls. */
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
 * Reads the caller's options from headers (gRPC: metadata): `idempotency-key`, and `receipt` under the deployment's
 * prefix. Refuses invalid values without repeating them.
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
 * Returns the values of a header joined as `Headers` does: trimmed, and separated by a comma and a space. Building
 * `Headers` for a call would take longer than the rest of its way to the handler.
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
