/**
 * The JSON routes, a fourth protocol beside gRPC, gRPC-Web and Connect: one fastify route for each method, from its
 * `google.api.http` annotation, through the same gate and interceptors.
 */
import type { Message } from "@bufbuild/protobuf";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { invalidRequest, ServiceError } from "../../base/errors.ts";
import { admitBody, continueIfExpected, declaredBytes, hasBody, readBody } from "../../http/body.ts";
import type { BodyLease } from "../../http/body-budget.ts";
import { startDeadline } from "../../http/deadline.ts";
import type { Call } from "../calls/call.ts";
import { CallContext } from "../calls/context.ts";
import { toServiceError } from "../calls/errors.ts";
import { type AdapterOptions, answeredByHook, maxItemBytes, route, whenCallerGone } from "../calls/exchange.ts";
import type { ServedMethod } from "../calls/methods.ts";
import { type UnaryInvoker, unaryInvoker } from "../calls/unary-invoker.ts";
import type { MessageRules } from "../codec/faults.ts";
import { itemField, takeJsonItems } from "../codec/items.ts";
import { answerEncoder, itemsEncoder } from "./answer.ts";
import { decodePart, decodeRequest } from "./codec.ts";
import { type ByteText, refuse, sendJson } from "./json-answer.ts";
import { createRestRegistry } from "./registry.ts";

const empty = new TextEncoder().encode("{}");

export function registerRest(app: FastifyInstance, methods: readonly ServedMethod[], options: AdapterOptions): void {
  const registry = createRestRegistry([
    ...new Set(methods.flatMap(({ spec }) => [spec.method.input.file, ...spec.method.input.file.dependencies])),
  ]);
  for (const method of methods) {
    const input = registry.message(method.spec.method.input);
    const rules: MessageRules = (message) => options.rules(method.spec.method.input, message);
    const items = itemField(method.spec.method.input);
    const output = registry.message(method.spec.method.output);
    const encode = items === undefined ? answerEncoder(output) : itemsEncoder(output);
    const item = items && registry.message(items.message);
    const decode = (body: Uint8Array, call: Call): Message => {
      if (items === undefined || item === undefined) return decodeRequest(input, body, rules);
      const taken = takeJsonItems(items, body, {
        rules: options.rules,
        maxBytes: maxItemBytes(options.limits, method.rpc),
        readText: (text, itemRules) => decodePart(item, text, itemRules),
      });
      call.items = taken.items;
      return decodeRequest(input, taken.rest, rules);
    };
    const invoke = unaryInvoker(method.spec, options.interceptors);
    app.route({
      method: method.verb === "GET" ? ["GET", "HEAD"] : "POST",
      url: method.restPath,
      // A hook, so that fastify does not look at the content type before credentials are checked.
      onRequest: (request, reply) => {
        reply.hijack();
        void handle(method, { decode, invoke, encode }, options, request, reply);
      },
      handler: answeredByHook,
    });
  }
}

interface Steps {
  readonly decode: (body: Uint8Array, call: Call) => Message;
  readonly invoke: UnaryInvoker;
  readonly encode: (message: Message) => ByteText | Promise<ByteText>;
}

async function handle(
  method: ServedMethod,
  { decode, invoke, encode }: Steps,
  { service, gate, limits, bodies }: AdapterOptions,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const { raw, inbound } = request;
  const call = route(request, "rest", method.rpc);
  let lease: BodyLease | undefined;
  const deadline = startDeadline(undefined, limits.maxDeadlineMs, call.ticket?.waitedMs);
  whenCallerGone(reply.raw, deadline.cancel);
  try {
    const context = new CallContext({
      spec: method.spec,
      call,
      deadline,
      protocolName: "rest",
      requestMethod: inbound.method,
      url: inbound.url,
      rawHeaders: raw.rawHeaders,
    });
    await gate({ call, inbound, rpc: method.rpc, signal: deadline.signal });
    if (method.verb !== "GET") lease = bodies.lease(call, inbound);
    const message =
      lease === undefined
        ? decode(noBody(request), call)
        : await readMessage(decode, method, limits, request, reply, lease, deadline.signal);
    const encoded = encode(await invoke(context, message));
    const text = typeof encoded === "string" ? encoded : await encoded;
    // Before the answer, after which the caller may send the next body at once.
    lease?.release();
    sendJson(reply, 200, { ...call.announced, ...context.answerHeaders }, text);
  } catch (thrown) {
    lease?.release();
    refuse(service, toServiceError(thrown), request, reply);
  } finally {
    deadline.end();
  }
}

function noBody({ raw }: FastifyRequest): Uint8Array {
  if (hasBody(raw)) throw invalidRequest("", "body.absent", "a GET request has no body");
  return empty;
}

/** A function for reading and decoding, so that nothing keeps the bytes during the call. */
async function readMessage(
  decode: Steps["decode"],
  { rpc }: ServedMethod,
  { maxBodyBytes, bodyTimeoutMs }: AdapterOptions["limits"],
  { raw, call }: FastifyRequest,
  reply: FastifyReply,
  lease: BodyLease,
  signal: AbortSignal,
): Promise<Message> {
  requireJson(raw.headers["content-type"], raw.headers["content-encoding"]);
  const announced = { bytes: declaredBytes(raw) };
  const bodyLimits = { maxBytes: maxBodyBytes(rpc), timeoutMs: bodyTimeoutMs, lease };
  admitBody(announced, bodyLimits);
  continueIfExpected(raw, reply.raw);
  return decode(await readBody(raw, announced, bodyLimits, signal, call.ticket), call);
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
