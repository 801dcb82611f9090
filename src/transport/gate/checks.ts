/** What a call passes once its message is read, before its handler. */
import { invalidRequests, ServiceError } from "../../base/errors.ts";
import type { Call, ReceiptDetail } from "../calls/call.ts";
import type { Checks } from "../calls/exchange.ts";
import { rulesOf } from "../codec/rules.ts";

export interface ChecksOptions {
  /** Lowercase prefix of our own headers, such as `x-svc-`. */
  readonly headerPrefix: string;
  /** Enforces quotas for the items of bulk calls; absent if there are none. */
  readonly itemQuotas?: ((rpc: string, call: Call, signal: AbortSignal) => Promise<void>) | undefined;
}

/** Returns the checks in their order: call options, rules of the message, quotas of its items. */
export function createChecks({ headerPrefix, itemQuotas }: ChecksOptions): Checks {
  const readOptions = readCallOptions(headerPrefix);
  return ({ call, rpc, desc, message, signal }) => {
    readOptions(call);
    const violations = rulesOf(desc)(message);
    if (violations.length > 0) throw invalidRequests(violations);
    return call.items === undefined ? undefined : itemQuotas?.(rpc, call, signal);
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
export function readCallOptions(headerPrefix: string): (call: Call) => void {
  const receiptHeader = `${headerPrefix}receipt`;
  return (call) => {
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
