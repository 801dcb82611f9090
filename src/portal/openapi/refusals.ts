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

/** Routes that return it, its condition, an example, and its status if that differs from the reason's own. */
type Row = readonly [
  routes: (route: SdkRoute) => boolean,
  when: string,
  example: ServiceError | ((scopes: readonly string[]) => ServiceError),
  status?: number,
];

const everywhere = () => true;
const withBody = (route: SdkRoute) => !discovery.has(route);
const withoutBody = (route: SdkRoute) => discovery.has(route);
const discovery: ReadonlySet<SdkRoute> = new Set(["capabilities", "whoami", "bootstrap"]);
const decisions: ReadonlySet<SdkRoute> = new Set(["protection-plan", "policy-resolve", "key-access-plan"]);
const recorded: ReadonlySet<SdkRoute> = new Set(["artifact-register", "evidence"]);

const error = (reason: Reason, message: string, retryAfterSeconds?: number) =>
  new ServiceError(reason, message, retryAfterSeconds === undefined ? {} : { retryAfterSeconds });

const violation = (field: string, rule: string, message: string): Violation => ({ field, rule, message });
const unknownMember = violation("plaintext", "json.unknown_field", "unknown member");
const unknownWord = violation("operation", "enum.defined_only", "must be one of protect, access, rewrap");
const bodyOnGet = violation("", "body.absent", "a GET request has no body");
const largeHeaders = violation("", "http.headers", "request headers are too large");

const invalid = (given: Violation) => new ServiceError("invalid_request", given.message, { violations: [given] });

/** Null: no caller of the eight routes receives it today. */
const table: Readonly<Record<Reason, readonly Row[] | null>> = {
  invalid_request: [
    [
      withBody,
      "The body is not what the schema says. Every violation is listed, with the path of the member; values are not repeated.",
      invalidRequests([unknownMember, unknownWord]),
    ],
    [withoutBody, "A body came with the request.", invalid(bodyOnGet)],
    [everywhere, "The headers are larger than the service reads.", invalid(largeHeaders), 431],
  ],
  missing_token: [[everywhere, "No credentials came with the request.", missingToken()]],
  invalid_token: [
    [
      everywhere,
      "The token is malformed, or not for this service, or its signature is invalid.",
      refusedToken("invalid_token", "the access token is not valid"),
    ],
  ],
  expired_token: [
    [everywhere, "The token has expired: mint another.", refusedToken("expired_token", "the access token has expired")],
  ],
  proof_of_possession_failed: [
    [
      everywhere,
      "The token is bound to another client certificate than the one presented, or none was presented.",
      refusedToken("proof_of_possession_failed", "the client certificate is not the one that the token is bound to"),
    ],
  ],
  tenant_mismatch: [
    [
      everywhere,
      "A tenant header came with the token and names another tenant. Callers send none.",
      error("tenant_mismatch", "the tenant header differs from the tenant of the credentials"),
    ],
  ],
  missing_scope: [
    [
      everywhere,
      "The token lacks a scope that the route needs; the missing ones are named.",
      (scopes) => insufficientScope(scopes, scopes.slice(-1)),
    ],
  ],
  method_not_allowed: [
    [
      everywhere,
      "The path was called with another method; `Allow` names those that it has.",
      error("method_not_allowed", "method must be one that the path has"),
    ],
  ],
  idempotency_conflict: [
    [
      (route) => recorded.has(route),
      "The idempotency key was used for another request, or its record was erased.",
      error("idempotency_conflict", "the idempotency key was used for another request"),
    ],
  ],
  request_timeout: [
    [withBody, "The body did not arrive in time.", error("request_timeout", "request body did not arrive in time")],
  ],
  body_too_large: [
    [
      withBody,
      "The body exceeds the limit of the route.",
      error("body_too_large", "request exceeds the size limit of this method"),
    ],
  ],
  unsupported_media_type: [
    [
      withBody,
      "The body is not `application/json` in UTF-8, or is compressed.",
      error("unsupported_media_type", "content type must be application/json in UTF-8"),
    ],
  ],
  rate_limited: [
    [
      everywhere,
      "The tenant's quota for the period is used up: nothing was done for this call.",
      error("rate_limited", "the tenant's quota of requests is used up", 42),
    ],
  ],
  overloaded: [
    [
      everywhere,
      "The service is overloaded: nothing was done for this call.",
      error("overloaded", "too much at once: try again later", 1),
    ],
  ],
  internal: [
    [
      everywhere,
      "Something failed inside the service. Quote `request_id` to its operator.",
      error("internal", "internal error"),
    ],
  ],
  issuer_unavailable: [
    [
      everywhere,
      "The keys of the token issuer are not available.",
      error("issuer_unavailable", "the keys of the token issuer are not available", 5),
    ],
  ],
  policy_unavailable: [
    [
      (route) => decisions.has(route),
      "No policy is in force, or a reload declared other attributes of callers meanwhile: nothing was decided.",
      error("policy_unavailable", "no policy is in force", 5),
    ],
  ],
  store_unavailable: [
    [
      withBody,
      "Records cannot be written: nothing was decided, registered or ingested.",
      error("store_unavailable", "The record store is not available.", 5),
    ],
  ],
  deadline_exceeded: [
    [
      everywhere,
      "The call took longer than the service allows.",
      error("deadline_exceeded", "the deadline has passed"),
    ],
  ],
  no_route: null,
  invalid_client: null,
  unsupported_encoding: null,
  canceled: null,
};

/** Refusals of a route by status, in the order of the status. */
export function refusalsOf(route: SdkRoute, scopes: readonly string[]): ReadonlyMap<number, readonly Refusal[]> {
  const byStatus = new Map<number, Refusal[]>();
  for (const [reason, rows] of Object.entries(table) as [Reason, readonly Row[] | null][]) {
    for (const [routes, when, example, status = reasons[reason].httpStatus] of rows ?? []) {
      if (!routes(route)) continue;
      const refusals = byStatus.get(status) ?? [];
      refusals.push({ status, reason, when, example: example instanceof ServiceError ? example : example(scopes) });
      byStatus.set(status, refusals);
    }
  }
  return new Map([...byStatus].sort(([a], [b]) => a - b));
}
