/**
 * The refusals of the eight routes as the document tells them: one row for each reason of the closed list, so that a
 * reason cannot be added without saying here where callers meet it.
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

interface Row {
  readonly routes: (route: SdkRoute) => boolean;
  readonly when: string;
  readonly example: (scopes: readonly string[]) => ServiceError;
  /** Where it differs from the reason's own. */
  readonly status?: number;
}

const everywhere = () => true;
const withBody = (route: SdkRoute) => !discovery.has(route);
const discovery: ReadonlySet<SdkRoute> = new Set(["capabilities", "whoami", "bootstrap"]);
const decisions: ReadonlySet<SdkRoute> = new Set(["protection-plan", "policy-resolve", "key-access-plan"]);

const simple = (reason: Reason, message: string, retryAfterSeconds?: number) => () =>
  new ServiceError(reason, message, retryAfterSeconds === undefined ? {} : { retryAfterSeconds });

const unknownMember: Violation = { field: "plaintext", rule: "json.unknown_field", message: "unknown member" };
const unknownWord: Violation = {
  field: "operation",
  rule: "enum.defined_only",
  message: "must be one of protect, access, rewrap",
};
const bodyOnGet: Violation = { field: "", rule: "body.absent", message: "a GET request has no body" };

function invalid(message: string, ...violations: Violation[]): () => ServiceError {
  return () => new ServiceError("invalid_request", message, { violations });
}

/** Null: no caller of the eight routes meets it today. */
const table: Readonly<Record<Reason, readonly Row[] | null>> = {
  invalid_request: [
    {
      routes: withBody,
      when: "The body is not what the schema says. Every violation is listed, with the path of the member; values are not repeated.",
      example: () => invalidRequests([unknownMember, unknownWord]),
    },
    {
      routes: (route) => !withBody(route),
      when: "A body came with the request.",
      example: invalid(bodyOnGet.message, bodyOnGet),
    },
    {
      routes: everywhere,
      status: 431,
      when: "The headers are larger than the service reads.",
      example: invalid("request headers are too large", {
        field: "",
        rule: "http.headers",
        message: "request headers are too large",
      }),
    },
  ],
  missing_token: [{ routes: everywhere, when: "No credentials came with the request.", example: missingToken }],
  invalid_token: [
    {
      routes: everywhere,
      when: "The token is malformed, or not for this service, or its signature does not stand.",
      example: () => refusedToken("invalid_token", "the access token is not valid"),
    },
  ],
  expired_token: [
    {
      routes: everywhere,
      when: "The token has expired: mint another.",
      example: () => refusedToken("expired_token", "the access token has expired"),
    },
  ],
  proof_of_possession_failed: [
    {
      routes: everywhere,
      when: "The token is bound to another client certificate than the one presented, or none was presented.",
      example: () =>
        refusedToken("proof_of_possession_failed", "the client certificate is not the one that the token is bound to"),
    },
  ],
  tenant_mismatch: [
    {
      routes: everywhere,
      when: "A tenant header came with the token and names another tenant. Callers send none.",
      example: simple("tenant_mismatch", "the tenant header differs from the tenant of the credentials"),
    },
  ],
  missing_scope: [
    {
      routes: everywhere,
      when: "The token lacks a scope that the route needs; the missing ones are named.",
      example: (scopes) => insufficientScope(scopes, scopes.slice(-1)),
    },
  ],
  method_not_allowed: [
    {
      routes: everywhere,
      when: "The path was called with another method; `Allow` names those that it has.",
      example: simple("method_not_allowed", "method must be one that the path has"),
    },
  ],
  idempotency_conflict: [
    {
      routes: (route) => route === "artifact-register" || route === "evidence",
      when: "The idempotency key was used for another request, or its record was erased.",
      example: simple("idempotency_conflict", "the idempotency key was used for another request"),
    },
  ],
  request_timeout: [
    {
      routes: withBody,
      when: "The body did not arrive in time.",
      example: simple("request_timeout", "request body did not arrive in time"),
    },
  ],
  body_too_large: [
    {
      routes: withBody,
      when: "The body exceeds the limit of the route.",
      example: simple("body_too_large", "request exceeds the size limit of this method"),
    },
  ],
  unsupported_media_type: [
    {
      routes: withBody,
      when: "The body is not `application/json` in UTF-8, or is compressed.",
      example: simple("unsupported_media_type", "content type must be application/json in UTF-8"),
    },
  ],
  rate_limited: [
    {
      routes: everywhere,
      when: "The tenant has used up what the deployment lets it use in a period: nothing was done for this call.",
      example: simple("rate_limited", "the tenant's quota of requests is used up", 42),
    },
  ],
  overloaded: [
    {
      routes: everywhere,
      when: "The service has too much to do at once: nothing was done for this call.",
      example: simple("overloaded", "too much at once: try again later", 1),
    },
  ],
  internal: [
    {
      routes: everywhere,
      when: "Something failed inside the service. Quote `request_id` to its operator.",
      example: simple("internal", "internal error"),
    },
  ],
  issuer_unavailable: [
    {
      routes: everywhere,
      when: "The keys of the token issuer are not available.",
      example: simple("issuer_unavailable", "the keys of the token issuer are not available", 5),
    },
  ],
  policy_unavailable: [
    {
      routes: (route) => decisions.has(route),
      when: "No policy is in force, or a reload declared other attributes of callers meanwhile: nothing was decided.",
      example: simple("policy_unavailable", "no policy is in force", 5),
    },
  ],
  store_unavailable: [
    {
      routes: withBody,
      when: "Records cannot be written: nothing was decided, registered or ingested.",
      example: simple("store_unavailable", "The record store is not available.", 5),
    },
  ],
  deadline_exceeded: [
    {
      routes: everywhere,
      when: "The call took longer than the service lets any call take.",
      example: simple("deadline_exceeded", "the deadline has passed"),
    },
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
    for (const { routes, status = reasons[reason].httpStatus, when, example } of rows ?? []) {
      if (!routes(route)) continue;
      const refusals = byStatus.get(status) ?? [];
      refusals.push({ status, reason, when, example: example(scopes) });
      byStatus.set(status, refusals);
    }
  }
  return new Map([...byStatus].sort(([a], [b]) => a - b));
}
