import type { Interceptor } from "@connectrpc/connect";
import { ServiceError } from "../../base/errors.ts";
import { type Call, callOf, type ReceiptDetail } from "../calls/call.ts";

const idempotencyHeader = "idempotency-key";
/** Visible ASCII. A header that is sent twice is joined with a space, and so refused. */
const idempotencyKey = /^[\x21-\x7e]{1,128}$/;
const receiptDetails: readonly string[] = ["full", "brief", "none"] satisfies ReceiptDetail[];

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
      if (!isReceiptDetail(detail)) throw refuse(receiptHeader, "must be full, brief or none");
      call.receiptDetail = detail;
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

function isReceiptDetail(text: string): text is ReceiptDetail {
  return receiptDetails.includes(text);
}

function refuse(header: string, message: string): ServiceError {
  const violation = { field: "", rule: "http.headers", message: `header ${header} ${message}` };
  return new ServiceError("invalid_request", violation.message, { violations: [violation] });
}
