import type { UniversalHandler, UniversalServerRequest, UniversalServerResponse } from "@connectrpc/connect/protocol";
import { parseTimeout as parseConnectTimeout } from "@connectrpc/connect/protocol-connect";
import { parseTimeout as parseGrpcTimeout } from "@connectrpc/connect/protocol-grpc";
import type { FastifyRequest } from "fastify";
import { ServiceError } from "../../base/errors.ts";
import type { BodyLease } from "../../http/body-budget.ts";
import { startDeadline } from "../../http/deadline.ts";
import type { Call, Protocol } from "../calls/call.ts";
import { invalidMessage, toServiceError } from "../calls/errors.ts";
import { type AdapterOptions, kRequest, maxItemBytes, route } from "../calls/exchange.ts";
import { protocolOf, type RefusedWith, rpcRefusal } from "../calls/refusals.ts";
import { itemField, takeBinaryItems, takeJsonItems } from "../codec/items.ts";
import { explainUnread } from "./explain.ts";
import { answerRefusal } from "./refusal.ts";
import { takeForm, unaryBody } from "./unary-body.ts";

const acceptEncodingHeaders = ["accept-encoding", "connect-accept-encoding", "grpc-accept-encoding"];

/** Wraps a handler of the Connect plugin: time limits, uncompressed answers, and one form of refusal. */
export function wrap(handler: UniversalHandler, options: AdapterOptions): UniversalHandler {
  const { service, limits } = options;
  const rpc = `${handler.service.name}/${handler.method.name}`;
  const items = itemField(handler.method.input);
  return carry(handler, service, async (universal, request) => {
    const { call } = request;
    const timeoutMs = takeTimeout(universal.header, call.protocol);
    const deadline = startDeadline(timeoutMs, limits.maxDeadlineMs, call.ticket?.waitedMs);
    const form = takeForm(universal, call.protocol);
    let body: Uint8Array | undefined;
    let lease: BodyLease | undefined;
    try {
      const response = await handler({
        ...uncompressedAnswer(universal),
        signal: AbortSignal.any([universal.signal, deadline.signal]),
        body: unaryBody({
          request,
          form,
          desc: handler.method.input,
          // Called after the gate.
          limits: () => {
            lease = options.bodies.lease(call, request.inbound);
            return { maxBytes: limits.maxBodyBytes(rpc), timeoutMs: limits.bodyTimeoutMs, lease };
          },
          signal: deadline.signal,
          takeItems:
            items &&
            ((message, isJson) => {
              const take = isJson ? takeJsonItems : takeBinaryItems;
              const taken = take(items, message, { rules: options.rules, maxBytes: maxItemBytes(limits, rpc) });
              call.items = taken.items;
              return taken.rest;
            }),
          onRead: (read) => {
            body = read;
          },
        }),
      });
      // Credentials are refused before the content type, and the plugin's own 415 comes before the gate.
      if (response.body === undefined)
        await options.gate({ call, inbound: request.inbound, rpc, signal: deadline.signal });
      const explain = () => explainUnread({ universal, form, body }, handler.method.input, options.rules);
      return await answerRefusal(response, { service, call, explain });
    } finally {
      deadline.end();
      lease?.release();
    }
  });
}

/** Wraps the handler with refusals in the caller's protocol: another verb, unknown type, thrown errors. */
export function carry(
  handler: UniversalHandler,
  service: string,
  handle: (universal: UniversalServerRequest, request: FastifyRequest) => Promise<UniversalServerResponse>,
): UniversalHandler {
  const carried = async (universal: UniversalServerRequest): Promise<UniversalServerResponse> => {
    const request = universal.contextValues?.get(kRequest);
    if (request === undefined) throw new Error("call without a request");
    const { method, header } = universal;
    const contentType = header.get("content-type");
    const call = route(request, protocolOf(contentType), `${handler.service.name}/${handler.method.name}`);
    const allowed = call.protocol === "connect" ? handler.allowedMethods : ["POST"];
    const refuse = (refusal: ServiceError, refusedWith?: RefusedWith) =>
      rpcRefusal(service, call, refusal, contentType, refusedWith);
    if (!allowed.includes(method)) {
      const allow = allowed.join(", ");
      return refuse(new ServiceError("method_not_allowed", `method must be ${allow}`), { headers: { allow } });
    }
    try {
      const response = await handle(universal, request);
      if (response.status === 200 || response.body !== undefined) return announcing(call, response);
      if (response.status !== 505)
        return refuse(new ServiceError("unsupported_media_type", "content type is not supported by this method"));
      const headers = Object.fromEntries(response.header ?? []);
      return refuse(invalidMessage("http.version", "this method needs HTTP/2"), { headers, status: 505 });
    } catch (thrown) {
      return refuse(toServiceError(thrown));
    }
  };
  return Object.assign(carried, handler);
}

/** Adds the headers that every answer carries. */
function announcing({ announced }: Call, response: UniversalServerResponse): UniversalServerResponse {
  if (announced === undefined) return response;
  const header = new Headers(response.header);
  for (const [name, value] of Object.entries(announced)) header.set(name, value);
  return { ...response, header };
}

/**
 * Removes the caller's time limit from the headers and returns it in milliseconds. Our deadline enforces it, also while
 * the body is read; the plugin's would start a timer of any length. A malformed limit stays, so that the plugin refuses
 * it.
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

/** Answers are never compressed, because they mix the caller's text with secrets. */
function uncompressedAnswer(universal: UniversalServerRequest): UniversalServerRequest {
  for (const name of acceptEncodingHeaders) universal.header.set(name, "identity");
  return universal;
}
