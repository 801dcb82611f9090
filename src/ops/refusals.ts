/** Refusals of the operator listener: in the error envelope, with the id of the exchange. */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Clock } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import { newRequestId, parseRequestId, type RandomFill, type RequestId } from "../base/ids.ts";
import { type RawRefusals, rawRefusals } from "../http/raw-answer.ts";

export interface RefusalOptions {
  readonly serviceName: string;
  readonly clock: Clock;
  readonly random: RandomFill;
}

/** Sets the header with the id of the exchange, the caller's if it is valid, and returns the id. */
export function nameExchange(
  { clock, random }: RefusalOptions,
  request: FastifyRequest,
  reply: FastifyReply,
): RequestId {
  const given = request.headers["x-request-id"];
  const requestId = (typeof given === "string" ? parseRequestId(given) : undefined) ?? newRequestId(clock, random);
  reply.header("x-request-id", requestId);
  return requestId;
}

/** Answers with the envelope, under the reason's status or another. */
export function refuse(
  options: RefusalOptions,
  request: FastifyRequest,
  reply: FastifyReply,
  refusal: ServiceError,
  status: number = refusal.httpStatus,
): FastifyReply {
  const given = reply.getHeader("x-request-id") as RequestId | undefined;
  const requestId = given ?? nameExchange(options, request, reply);
  const { challenge, dpopNonce, retryAfterSeconds } = refusal.details;
  if (challenge !== undefined) reply.header("www-authenticate", challenge);
  if (dpopNonce !== undefined) reply.header("dpop-nonce", dpopNonce);
  if (retryAfterSeconds !== undefined) reply.header("retry-after", retryAfterSeconds);
  return reply.code(status).send(envelopeOf(options, requestId, refusal));
}

function envelopeOf(
  { serviceName }: RefusalOptions,
  requestId: RequestId,
  { code, reason, message, details }: ServiceError,
) {
  const { requiredScopes, missingScopes, retryAfterSeconds } = details;
  const error = {
    code,
    reason,
    message,
    request_id: requestId,
    ...(requiredScopes !== undefined && { required_scopes: requiredScopes }),
    ...(missingScopes !== undefined && { missing_scopes: missingScopes }),
    ...(retryAfterSeconds !== undefined && { retry_after_seconds: retryAfterSeconds }),
  };
  return { service: serviceName, status: "error", error };
}

/** Answers to what never becomes a request. */
export function opsRawRefusals(options: RefusalOptions): RawRefusals {
  return rawRefusals({
    ...options,
    envelopeOf: (requestId, refusal) => envelopeOf(options, requestId, refusal),
    allow: "GET, HEAD",
    noTunnel: new ServiceError("method_not_allowed", "the method is not allowed here"),
  });
}
