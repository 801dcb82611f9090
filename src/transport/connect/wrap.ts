import type { UniversalHandler, UniversalServerRequest, UniversalServerResponse } from "@connectrpc/connect/protocol";
import { parseTimeout as parseConnectTimeout } from "@connectrpc/connect/protocol-connect";
import { parseTimeout as parseGrpcTimeout } from "@connectrpc/connect/protocol-grpc";
import type { FastifyRequest } from "fastify";
import { ServiceError } from "../../base/errors.ts";
import type { Protocol } from "../call.ts";
import { startDeadline } from "../deadline.ts";
import { toServiceError } from "../errors.ts";
import { type AdapterOptions, kRequest, route } from "../exchange.ts";
import { explainUnread } from "./explain.ts";
import { answerRefusal, envelopeResponse, protocolOf } from "./refusal.ts";
import { timedBody } from "./timed-body.ts";

const acceptEncodingHeaders = ["accept-encoding", "connect-accept-encoding", "grpc-accept-encoding"];

/** Wraps a handler of the stock plugin: time limits, no compressed answers, and one shape for every refusal. */
export function wrap(handler: UniversalHandler, options: AdapterOptions): UniversalHandler {
  const rpc = `${handler.service.name}/${handler.method.name}`;
  const wrapped = async (universal: UniversalServerRequest): Promise<UniversalServerResponse> => {
    const request = universal.contextValues?.get(kRequest);
    if (request === undefined) throw new Error("call without a request");
    const call = route(request, protocolOf(universal), rpc);
    if (!handler.allowedMethods.includes(universal.method)) {
      const allow = handler.allowedMethods.join(", ");
      call.refusal = new ServiceError("method_not_allowed", `method must be ${allow}`);
      return envelopeResponse(options.service, call, { allow });
    }
    const deadline = startDeadline(takeTimeout(universal.header, call.protocol), options.limits.maxDeadlineMs);
    const body: Uint8Array[] = [];
    try {
      const response = await handler(limited(universal, request, deadline.signal, body, options));
      if (response.status === 415 && response.body === undefined) {
        call.refusal = await unsupportedType(request, rpc, deadline.signal, options);
        return envelopeResponse(options.service, call);
      }
      const explain = () =>
        explainUnread({ universal, body }, handler.method.input, options.limits.maxBodyBytes(rpc), options);
      return await answerRefusal(response, { service: options.service, call, explain });
    } finally {
      deadline.end();
    }
  };
  return Object.assign(wrapped, handler);
}

/**
 * Takes the caller's own limit, in milliseconds, out of the headers: our deadline holds it, while the body is read
 * too, where the plugin's would start a timer of any length. A malformed one stays for the plugin to refuse.
 */
export function takeTimeout(header: Headers, protocol: Protocol | undefined): number | undefined {
  const [name, parse] =
    protocol === "connect"
      ? (["connect-timeout-ms", parseConnectTimeout] as const)
      : (["grpc-timeout", parseGrpcTimeout] as const);
  const { timeoutMs, error } = parse(header.get(name), Number.MAX_SAFE_INTEGER);
  if (error === undefined) header.delete(name);
  return timeoutMs;
}

function limited(
  universal: UniversalServerRequest,
  request: FastifyRequest,
  deadline: AbortSignal,
  read: Uint8Array[],
  { limits }: AdapterOptions,
): UniversalServerRequest {
  // Answers are small, and mix what callers send with what is secret of others': they are never compressed.
  // A caller that names no encoding would get the one of its request.
  for (const name of acceptEncodingHeaders) universal.header.set(name, "identity");
  return {
    ...universal,
    signal: AbortSignal.any([universal.signal, deadline]),
    body: timedBody(universal.body as AsyncIterable<Uint8Array>, request, limits.bodyTimeoutMs, deadline, read),
  };
}

/** Credentials come before the type in the order of refusal, and the plugin's own 415 comes before the gate. */
async function unsupportedType(
  { call, edge }: FastifyRequest,
  rpc: string,
  signal: AbortSignal,
  { gate }: AdapterOptions,
): Promise<ServiceError> {
  try {
    await gate({ call, edge, rpc, signal });
    return new ServiceError("unsupported_media_type", "content type is not supported by this method");
  } catch (thrown) {
    return toServiceError(thrown);
  }
}
