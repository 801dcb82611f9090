/**
 * The refusals of the eight routes in the document: one row for each reason of the closed list, so that a new reason
 * must be described here.
 */
import { insufficientScope, missingToken, refusedToken } from "../../auth/challenge.ts";
import { invalidRequests, type Reason, reasons, ServiceError, type Violation } from "../../base/errors.ts";
import type { SdkRoute } from "../../base/vocabulary.ts";

/** One way in which a route refuses. */
export interface Refusal {
  readonly status: number;
  readonly reason: Reason;
  /** When it happens, in one sentence. */
  readonly when: string;
  /** The refusal itself, as an example. */
  readonly example: ServiceError;
}

/** One row of the table. */
interface Row {
  /** Routes that refuse so; all if absent. */
  readonly on?: (route: SdkRoute) => boolean;
  readonly when: string;
  /** The example, or its message. */
  readonly example: string | ServiceError | ((scopes: readonly string[]) => ServiceError);
  readonly retryAfterSeconds?: number;
  /** If it differs from the reason's own. */
  readonly status?: number;
}

const withBody = (route: SdkRoute) => !discovery.has(route);
const withoutBody = (route: SdkRoute) => discovery.has(route);
const discovery: ReadonlySet<SdkRoute> = new Set(["capabilities", "whoami", "bootstrap"]);
const decisions: ReadonlySet<SdkRoute> = new Set(["protection-plan", "policy-resolve", "key-access-plan"]);
const recorded: ReadonlySet<SdkRoute> = new Set(["artifact-register", "evidence"]);

const violation = (field: string, rule: string, message: string): Violation => ({ field, rule, message });
const unknownMember = violation("plaintext", "json.unknown_field", "unknown member");
const unknownWord = violation("operation", "enum.defined_only", "must be one of protect, access, rewrap");
const bodyOnGet = violation("", "body.absent", "a GET request has no body");
const largeHeaders = violation("", "http.headers", "request headers are too large");

const invalid = (given: Violation) => new ServiceError("invalid_request", given.message, { violations: [given] });

/** Null: no caller of the eight routes receives it today. */
const table: Readonly<Record<Reason, Row | readonly Row[] | null>> = {
  invalid_request: [
    {
      on: withBody,
      when: "The body is not what the schema says. Every violation is listed, with the path of the member; values are not repeated.",
      example: invalidRequests([unknownMember, unknownWord]),
    },
    { on: withoutBody, when: "A body came with the request.", example: invalid(bodyOnGet) },
    { when: "The headers are larger than the service reads.", example: invalid(largeHeaders), status: 431 },
  ],
  missing_token: { when: "No credentials came with the request.", example: missingToken() },
  invalid_token: {
    when: "The token is malformed, or not for this service, or its signature is invalid.",
    example: refusedToken("invalid_token", "the access token is not valid"),
  },
  expired_token: {
    when: "The token has expired: mint another.",
    example: refusedToken("expired_token", "the access token has expired"),
  },
  proof_of_possession_failed: {
    when: "The token is bound to another client certificate than the one presented, or none was presented.",
    example: refusedToken(
      "proof_of_possession_failed",
      "the client certificate is not the one that the token is bound to",
    ),
  },
  tenant_mismatch: {
    when: "A tenant header came with the token and names another tenant. Callers send none.",
    example: "the tenant header differs from the tenant of the credentials",
  },
  missing_scope: {
    when: "The token lacks a scope that the route needs; the missing ones are named.",
    example: (scopes) => insufficientScope(scopes, scopes.slice(-1)),
  },
  method_not_allowed: {
    when: "The path was called with another method; `Allow` names those that it has.",
    example: "method must be one that the path has",
  },
  idempotency_conflict: {
    on: (route) => recorded.has(route),
    when: "The idempotency key was used for another request, or its record was erased.",
    example: "the idempotency key was used for another request",
  },
  request_timeout: {
    on: withBody,
    when: "The body did not arrive in time.",
    example: "request body did not arrive in time",
  },
  body_too_large: {
    on: withBody,
    when: "The body exceeds the limit of the route.",
    example: "request exceeds the size limit of this method",
  },
  unsupported_media_type: {
    on: withBody,
    when: "The body is not `application/json` in UTF-8, or is compressed.",
    example: "content type must be application/json in UTF-8",
  },
  rate_limited: {
    when: "The tenant's quota for the period is used up: nothing was done for this call.",
    example: "the tenant's quota of requests is used up",
    retryAfterSeconds: 42,
  },
  overloaded: {
    when: "The service is overloaded: nothing was done for this call.",
    example: "too much at once: try again later",
    retryAfterSeconds: 1,
  },
  internal: {
    when: "Something failed inside the service. Quote `request_id` to its operator.",
    example: "internal error",
  },
  issuer_unavailable: {
    when: "The keys of the token issuer are not available.",
    example: "the keys of the token issuer are not available",
    retryAfterSeconds: 5,
  },
  policy_unavailable: {
    on: (route) => decisions.has(route),
    when: "No policy is in force, or a reload declared other attributes of callers meanwhile: nothing was decided.",
    example: "no policy is in force",
    retryAfterSeconds: 5,
  },
  store_unavailable: {
    on: withBody,
    when: "Records cannot be written: nothing was decided, registered or ingested.",
    example: "The record store is not available.",
    retryAfterSeconds: 5,
  },
  deadline_exceeded: { when: "The call took longer than the service allows.", example: "the deadline has passed" },
  no_route: null,
  invalid_client: null,
  unsupported_encoding: null,
  canceled: null,
};

/** Refusals of a route by status, in the order of the status. */
export function refusalsOf(route: SdkRoute, scopes: readonly string[]): ReadonlyMap<number, readonly Refusal[]> {
  const byStatus = new Map<number, Refusal[]>();
  for (const [reason, rows] of Object.entries(table) as [Reason, Row | readonly Row[] | null][]) {
    for (const { on, when, example, retryAfterSeconds, status = reasons[reason].httpStatus } of [rows ?? []].flat()) {
      if (on?.(route) === false) continue;
      const details = retryAfterSeconds === undefined ? {} : { retryAfterSeconds };
      const made = typeof example === "string" ? new ServiceError(reason, example, details) : example;
      const refusals = byStatus.get(status) ?? [];
      refusals.push({ status, reason, when, example: typeof made === "function" ? made(scopes) : made });
      byStatus.set(status, refusals);
    }
  }
  return new Map([...byStatus].sort(([a], [b]) => a - b));
}
