/** Refusals of the operator listener: in the error envelope, with the id of the exchange. */
import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Clock } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import { newRequestId, parseRequestId, type RandomFill, type RequestId } from "../base/ids.ts";
import { answerAlone, clientRefusal, endWithAnswer } from "../http/raw-answer.ts";

export interface RefusalOptions {
  readonly serviceName: string;
  readonly clock: Clock;
  readonly random: RandomFill;
}

export const allowedMethods = "GET, HEAD";

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

/** Answers invalid HTTP/1.1 if the connection is still writable, and closes it. */
export function answerClientError(options: RefusalOptions, error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === "ECONNRESET") return void socket.destroy();
  const [status, refusal] = clientRefusal(error.code);
  endRaw(options, socket, status, refusal);
}

/** HTTP/1.1 can answer a request for a tunnel only on the connection itself. */
export function answerTunnel(options: RefusalOptions, socket: Duplex): void {
  socket.on("error", () => socket.destroy());
  const refusal = new ServiceError("method_not_allowed", "the method is not allowed here");
  endRaw(options, socket, "405 Method Not Allowed", refusal, { Allow: allowedMethods });
}

/** Answers a request of an unsupported HTTP/1 version. */
export function answerVersion(options: RefusalOptions, refusal: ServiceError, response: ServerResponse): void {
  const requestId = newRequestId(options.clock, options.random);
  const envelope = JSON.stringify(envelopeOf(options, requestId, refusal));
  answerAlone(response, 400, { "x-request-id": requestId }, envelope);
}

function endRaw(
  options: RefusalOptions,
  socket: Duplex,
  status: string,
  refusal: ServiceError,
  headers: Readonly<Record<string, string>> = {},
): void {
  const requestId = newRequestId(options.clock, options.random);
  const envelope = JSON.stringify(envelopeOf(options, requestId, refusal));
  endWithAnswer(socket, status, { "X-Request-Id": requestId, ...headers }, envelope);
}
