/** The error envelope as a schema, and the answers of a route that carry it. */
import { STATUS_CODES } from "node:http";
import { refusedToken, underDpop } from "../../auth/challenge.ts";
import { reasons, type ServiceError } from "../../base/errors.ts";
import type { RequestId } from "../../base/ids.ts";
import type { JsonObject, JsonValue } from "../../base/json.ts";
import type { ProofOfPossession, SdkRoute } from "../../base/vocabulary.ts";
import { refusalHeaders, toEnvelope } from "../../transport/calls/errors.ts";
import { type Refusal, refusalsOf } from "./refusals.ts";

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

/** Headers of answers, as components, for the deployment's proof of possession. */
export function answerHeaders(proofOfPossession: ProofOfPossession): JsonObject {
  return proofOfPossession === "dpop" ? { ...commonHeaders, ...dpopHeaders } : commonHeaders;
}

const commonHeaders: JsonObject = {
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

const expiredUnderDpop = underDpop(refusedToken("expired_token", "the access token has expired")) as ServiceError;

const dpopHeaders: JsonObject = {
  WwwAuthenticate: {
    description:
      "Credentials that the route requires, and the problem with those that were sent (RFC 9449, section 7.1). Where the " +
      "proof needs a nonce, or a newer one, the error is `use_dpop_nonce`.",
    required: true,
    schema: text,
    example: expiredUnderDpop.details.challenge,
  },
  DpopNonce: {
    description: "The nonce that the next proof must carry (RFC 9449, section 9), if proofs need one.",
    schema: text,
    example: "eyJ7S_zG.eyJH0-Z.HX4w-7v",
  },
};

/** Header that every answer has. */
export const requestIdHeader: JsonObject = { "x-request-id": { $ref: "#/components/headers/RequestId" } };

/** Headers of answers of a deployment that has quotas. */
export const rateLimitHeaders: JsonObject = {
  "RateLimit-Policy": { $ref: "#/components/headers/RateLimitPolicy" },
  RateLimit: { $ref: "#/components/headers/RateLimit" },
};

/** A route's refusals, by status. */
export function errorAnswers(
  service: string,
  route: SdkRoute,
  scopes: readonly string[],
  proofOfPossession: ProofOfPossession,
): Map<number, JsonObject> {
  return new Map(
    [...refusalsOf(route, scopes)].map(([status, refusals]) => {
      const hasNonce = status === 401 && proofOfPossession === "dpop";
      const headers = { ...headersOf(status, refusals), ...(hasNonce && dpopNonce) };
      return [status, answer(service, status, refusals, headers)];
    }),
  );
}

const dpopNonce: JsonObject = { "DPoP-Nonce": { $ref: "#/components/headers/DpopNonce" } };

function answer(service: string, status: number, refusals: readonly Refusal[], headers: JsonObject): JsonObject {
  const lines = refusals.map(({ reason, when }) => `- \`${reason}\`: ${when}`);
  return {
    description: `${STATUS_CODES[status]}\n\n${lines.join("\n")}`,
    headers: { ...requestIdHeader, ...headers },
    content: {
      "application/json": {
        schema: { $ref: "#/components/schemas/ErrorEnvelope" },
        examples: Object.fromEntries(
          refusals.map(({ reason, when, example }) => [
            reason,
            { summary: when, value: toEnvelope(service, requestId, example) as unknown as JsonValue },
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
