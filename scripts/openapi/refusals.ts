/** Refusals in the document: the error envelope as a schema, and the answers of a route that carry it. */
import { STATUS_CODES } from "node:http";
import { insufficientScope, missingToken, refusedToken } from "../../src/auth/challenge.ts";
import {
  invalidRequests,
  type Reason,
  reasons,
  refusalHeaders,
  ServiceError,
  toEnvelope,
  type Violation,
} from "../../src/base/errors.ts";
import type { RequestId } from "../../src/base/ids.ts";
import type { JsonObject, JsonValue } from "../../src/base/json.ts";
import type { SdkRoute } from "../../src/base/vocabulary.ts";

const requestId = "01953c5e-90a1-71eb-85fa-d1090c75e896" as RequestId;
const text = { type: "string" };
const seconds = { type: "integer", format: "int32", minimum: 1, maximum: 2_147_483_647 };
const texts = (description: string) => ({ type: "array", items: text, description });

/** Schemas of the envelope. */
export const errorSchemas: JsonObject = {
  ErrorEnvelope: {
    type: "object",
    description: "Every refusal, on every route. Members without a value are omitted.",
    required: ["service", "status", "error"],
    properties: {
      service: { ...text, description: "Name of the service." },
      status: { type: "string", const: "error", description: "Always `error`." },
      error: { $ref: "#/components/schemas/ErrorBody", description: "What was refused, and why." },
    },
  },
  // Not `Error`, which is a built-in name in several languages.
  ErrorBody: {
    type: "object",
    description: "One refusal.",
    required: ["code", "reason", "message", "request_id"],
    properties: {
      code: {
        ...text,
        enum: [...new Set(Object.values(reasons).map(({ code }) => code))].sort(),
        description: "Coarse code, the same on every protocol.",
      },
      reason: {
        ...text,
        enum: Object.keys(reasons).sort(),
        description: "Why, from a closed list. Decide by it rather than by the message.",
      },
      message: { ...text, description: "What went wrong, for a person. Never repeats a value of the request." },
      request_id: {
        ...text,
        pattern: "^[A-Za-z0-9._-]{1,128}$",
        description: "The same as the header `x-request-id`.",
      },
      violations: {
        type: "array",
        items: { $ref: "#/components/schemas/Violation" },
        description: "Every broken rule of the request.",
      },
      required_scopes: texts("Scopes that the route needs."),
      missing_scopes: texts("Scopes that the caller lacks."),
      retry_after_seconds: { ...seconds, description: "The same as the header `Retry-After`." },
    },
  },
  Violation: {
    type: "object",
    description: "One broken rule.",
    required: ["field", "rule", "message"],
    properties: {
      field: {
        ...text,
        description: "Path of the member; empty for the whole body.",
        examples: ["workload.application", "attributes[3].value"],
      },
      rule: { ...text, description: "Name of the rule.", examples: ["json.unknown_field"] },
      message: { ...text, description: "What is wrong, for a person. Never repeats the value." },
    },
  },
};

/** Headers of answers, as components. */
export const answerHeaders: JsonObject = {
  RequestId: {
    description: "Identifier of the exchange: the caller's own `x-request-id` if it sent a valid one, else a new one.",
    required: true,
    schema: { ...text, pattern: "^[A-Za-z0-9._-]{1,128}$" },
    example: requestId,
  },
  WwwAuthenticate: {
    description:
      "Credentials that the route requires, and the problem with those that were sent (RFC 6750, section 3).",
    required: true,
    schema: text,
    example: 'Bearer realm="sdk", error="invalid_token", error_description="the access token has expired"',
  },
  RetryAfter: {
    description: "Seconds after which to try again.",
    required: true,
    schema: seconds,
    example: 5,
  },
  RateLimitPolicy: {
    description:
      "Where the deployment limits what a tenant may use: each quota (`q`) and its period in seconds (`w`); of " +
      "`artifact-bytes` in bytes (draft-ietf-httpapi-ratelimit-headers).",
    schema: text,
    example: '"requests";q=6000;w=60, "records";q=3000;w=60',
  },
  RateLimit: {
    description: "What is left of each quota (`r`), about, and in how many seconds its period ends (`t`).",
    schema: text,
    example: '"requests";r=5871;t=42, "records";r=2980;t=42',
  },
  Allow: { description: "Methods that the path has.", required: true, schema: text, example: "POST" },
};

/** Header that every answer has. */
export const requestIdHeader: JsonObject = { "x-request-id": { $ref: "#/components/headers/RequestId" } };

/** Headers of answers of a deployment that has quotas. */
export const rateLimitHeaders: JsonObject = {
  "RateLimit-Policy": { $ref: "#/components/headers/RateLimitPolicy" },
  RateLimit: { $ref: "#/components/headers/RateLimit" },
};

/** A route's refusals, by status. */
export function errorAnswers(route: SdkRoute): Map<number, JsonObject> {
  return new Map([...refusalsOf(route)].map(([status, refusals]) => [status, answer(status, refusals)]));
}

function answer(status: number, refusals: readonly Refusal[]): JsonObject {
  const lines = refusals.map(({ reason, when }) => `- \`${reason}\`: ${when}`);
  return {
    description: `${STATUS_CODES[status]}\n\n${lines.join("\n")}`,
    headers: { ...requestIdHeader, ...headersOf(status, refusals) },
    content: {
      "application/json": {
        schema: { $ref: "#/components/schemas/ErrorEnvelope" },
        examples: Object.fromEntries(
          refusals.map(({ reason, when, example }) => [
            reason,
            { summary: when, value: toEnvelope("", requestId, example) as unknown as JsonValue },
          ]),
        ),
      },
    },
  };
}

/** Headers of a status; those that every example carries are marked required. */
function headersOf(status: number, refusals: readonly Refusal[]): JsonObject {
  const sent = refusals.map(({ example }) => refusalHeaders(example));
  const always = (name: string) => sent.every((headers) => name in headers);
  const sometimes = (name: string) => sent.some((headers) => name in headers);
  return {
    ...(always("www-authenticate") && { "WWW-Authenticate": { $ref: "#/components/headers/WwwAuthenticate" } }),
    ...(!always("www-authenticate") && sometimes("www-authenticate") && { "WWW-Authenticate": challengeOfSome }),
    ...(always("retry-after") && { "Retry-After": { $ref: "#/components/headers/RetryAfter" } }),
    ...(status === 429 && rateLimitHeaders),
    ...(status === 405 && { Allow: { $ref: "#/components/headers/Allow" } }),
  };
}

/** On 403 the challenge names the scopes; a tenant mismatch has no challenge. */
const challengeOfSome: JsonObject = {
  description: "On `missing_scope`: the scopes that the route needs (RFC 6750, section 3).",
  schema: text,
  example: 'Bearer realm="sdk", error="insufficient_scope", scope="platform-api.access policy.read"',
};

// The refusals of the eight routes in the document: one row for each reason of the closed list, so that a new reason
// must be described here.

/** One way in which a route refuses. */
interface Refusal {
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
  readonly example: string | ServiceError;
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

/** A text says when a reason happens that no route of the SDK's document gives. */
const table: Readonly<Record<Reason, Row | readonly Row[] | string>> = {
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
    example: insufficientScope([], []),
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
    when: "No policy is in force, or a reload changed attributes or actions of the call: nothing was decided.",
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
  no_route: "The path is not a route.",
  invalid_client: "Tenant, client or secret is wrong on the session route.",
  unsupported_encoding: "The message is compressed in a way that the service does not know.",
  canceled: "The caller left before the answer. Only logs and metrics show it.",
};

/** What helps a caller. */
export const remedies: Readonly<Record<Reason, string>> = {
  invalid_request: "Correct the members in `violations`. A retry does not help.",
  missing_token: "Send `Authorization: Bearer …` or `DPoP …`.",
  invalid_token: "Forget the token. Compare its issuer, audience and claims with the settings.",
  expired_token: "Fetch another token and call again, once.",
  proof_of_possession_failed: "Present the certificate that the token is bound to, or a new proof by its key.",
  tenant_mismatch: "Send no tenant header.",
  missing_scope: "Add the scopes in `missing_scopes` to the client at the token issuer, and fetch another token.",
  method_not_allowed: "Use a method that `Allow` names.",
  idempotency_conflict: "Use a new key for another request. Do not repeat an erased one.",
  request_timeout: "Send the body faster.",
  body_too_large: "Send less; see [limits](limits.md).",
  unsupported_media_type: "Send `application/json`, uncompressed.",
  rate_limited: "Wait as long as `Retry-After` says.",
  overloaded: "Retry, no sooner than told.",
  internal: "Give `request_id` to the operator.",
  issuer_unavailable: "Retry, no sooner than told. The operator checks the issuer.",
  policy_unavailable: "Retry, no sooner than told.",
  store_unavailable: "Retry with the same idempotency key. The record may exist.",
  deadline_exceeded: "Retry with a longer deadline. The record may exist.",
  no_route: "Compare the path with [API](api.md). Bulk, AuthZEN and sessions need a setting.",
  invalid_client: "Check the secret. `clients rotate` makes a new one.",
  unsupported_encoding: "Send it uncompressed.",
  canceled: "Nothing: the caller ended the call.",
};

/** When the service gives a reason. */
export function whenOf(reason: Reason): string {
  const rows = table[reason];
  return typeof rows === "string" ? rows : [...new Set([rows].flat().map(({ when }) => when))].join(" ");
}

/** Refusals of a route by status, in the order of the status. */
export function refusalsOf(route: SdkRoute): ReadonlyMap<number, readonly Refusal[]> {
  const byStatus = new Map<number, Refusal[]>();
  for (const [reason, rows] of Object.entries(table) as [Reason, (typeof table)[Reason]][]) {
    if (typeof rows === "string") continue;
    for (const { on, when, example, retryAfterSeconds, status = reasons[reason].httpStatus } of [rows].flat()) {
      if (on?.(route) === false) continue;
      const details = retryAfterSeconds === undefined ? {} : { retryAfterSeconds };
      const made = typeof example === "string" ? new ServiceError(reason, example, details) : example;
      const refusals = byStatus.get(status) ?? [];
      refusals.push({ status, reason, when, example: made });
      byStatus.set(status, refusals);
    }
  }
  return new Map([...byStatus].sort(([a], [b]) => a - b));
}
