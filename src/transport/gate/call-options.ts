import type { Interceptor } from "@connectrpc/connect";
import { ServiceError } from "../../base/errors.ts";
import { callOf, type ReceiptDetail } from "../calls/call.ts";

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
    const key = request.header.get(idempotencyHeader);
    if (key !== null) {
      if (!idempotencyKey.test(key)) throw refuse(idempotencyHeader, "must be 1 to 128 visible characters");
      call.idempotencyKey = key;
    }
    const detail = request.header.get(receiptHeader);
    if (detail !== null) {
      if (!isReceiptDetail(detail)) throw refuse(receiptHeader, "must be full, brief or none");
      call.receiptDetail = detail;
    }
    return next(request);
  };
}

function isReceiptDetail(text: string): text is ReceiptDetail {
  return receiptDetails.includes(text);
}

function refuse(header: string, message: string): ServiceError {
  const violation = { field: "", rule: "http.headers", message: `header ${header} ${message}` };
  return new ServiceError("invalid_request", violation.message, { violations: [violation] });
}
