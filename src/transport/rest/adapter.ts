/**
 * The JSON routes, a fourth protocol beside gRPC, gRPC-Web and Connect: one fastify route for each method, from its
 * `google.api.http` annotation.
 */
import type { Message } from "@bufbuild/protobuf";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { invalidRequest, ServiceError } from "../../base/errors.ts";
import { continueIfExpected, hasBody } from "../../http/body.ts";
import type { Call } from "../calls/call.ts";
import { type AdapterOptions, addRoute, exchange, route, whenCallerGone } from "../calls/exchange.ts";
import type { ServedMethod } from "../calls/methods.ts";
import { sendRefusal, sendWritten, toServiceError } from "../calls/refusals.ts";
import { itemField, takeJsonItems } from "../codec/items.ts";
import { readJson } from "../codec/json-reader.ts";
import { answerEncoder, type ByteText, itemsEncoder } from "./answer.ts";

const empty = new TextEncoder().encode("{}");

export function registerRest(app: FastifyInstance, methods: readonly ServedMethod[], options: AdapterOptions): void {
  for (const method of methods) {
    const { input, output } = method.spec.method;
    const items = itemField(input);
    const encode = items === undefined ? answerEncoder(output) : itemsEncoder(output);
    const decode = (body: Uint8Array, call: Call): Message => {
      if (items === undefined) return readJson(input, body, "rest");
      const taken = takeJsonItems(items, body, options.limits.maxItemBytes(method.rpc), (text) =>
        readJson(items.message, text, "rest"),
      );
      call.items = taken.items;
      return readJson(input, taken.rest, "rest");
    };
    const verbs = method.verb === "GET" ? ["GET", "HEAD"] : "POST";
    addRoute(app, verbs, method.restPath, (request, reply) =>
      handle(method, { decode, encode }, options, request, reply),
    );
  }
}

interface Codec {
  readonly decode: (body: Uint8Array, call: Call) => Message;
  readonly encode: (message: Message) => ByteText | Promise<ByteText>;
}

async function handle(
  method: ServedMethod,
  { decode, encode }: Codec,
  options: AdapterOptions,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const { raw, inbound } = request;
  const { headers, rawHeaders } = raw;
  const call = route(request, "rest", method.rpc);
  const hasNoBody = method.verb === "GET";
  const { context, answer } = await exchange(method, options, {
    call,
    inbound,
    rawHeaders,
    protocolName: "rest",
    requireGood: () =>
      hasNoBody ? requireNoBody(raw) : requireJson(headers["content-type"], headers["content-encoding"]),
    ...(!hasNoBody && {
      body: { stream: raw, headers, isFramed: false, onAdmitted: () => continueIfExpected(raw, reply.raw) },
    }),
    decode: (body) => decode(hasNoBody ? empty : body, call),
    encode,
    whenGone: (cancel) => whenCallerGone(reply.raw, cancel),
  });
  if (answer === undefined)
    return sendRefusal(options.service, call.refusal ?? toServiceError(undefined), request, reply);
  // Goes to Node's response directly: fastify would add a charset that JSON does not have.
  const own = { "content-type": "application/json", "content-length": String(answer.length) };
  sendWritten({ status: 200, headers: { ...context.answerHeaders, ...own }, body: answer }, request, reply);
}

function requireNoBody(request: FastifyRequest["raw"]): void {
  if (hasBody(request)) throw invalidRequest("", "body.absent", "a GET request has no body");
}

/** `application/json`, with no parameter or `charset=utf-8` (RFC 8259 §8.1, RFC 9110 §8.3.1). */
function requireJson(type: string | undefined, encoding: string | undefined): void {
  if (type === undefined || !/^application\/json\s*(;\s*charset=("utf-8"|utf-8)\s*)?$/i.test(type)) {
    throw new ServiceError("unsupported_media_type", "content type must be application/json in UTF-8");
  }
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    throw new ServiceError("unsupported_media_type", "content encodings are not supported on this route");
  }
}
