/**
 * The JSON routes, a fourth protocol beside gRPC, gRPC-Web and Connect: one fastify route for each method, from its
 * `google.api.http` annotation.
 */
import type { IncomingMessage } from "node:http";
import type { FastifyInstance } from "fastify";
import { invalidRequest, ServiceError } from "../../base/errors.ts";
import { hasBody } from "../../http/body.ts";
import { route } from "../calls/call.ts";
import {
  type AdapterOptions,
  addUnaryRoute,
  type CallContext,
  type Codec,
  exchange,
  type Source,
} from "../calls/exchange.ts";
import type { ServedMethod } from "../calls/methods.ts";
import type { Written } from "../calls/refusals.ts";
import { requestReader } from "../codec/items.ts";
import { type ByteText, pausingEncoder } from "./answer.ts";

const empty = Buffer.from("{}");

export function registerRest(app: FastifyInstance, methods: readonly ServedMethod[], options: AdapterOptions): void {
  for (const method of methods) {
    const { rpc, verb, restPath } = method;
    const { input, output } = method.spec.method;
    const read = requestReader(input, options.limits.maxItemBytes(rpc));
    const encode = pausingEncoder(output);
    const hasNoBody = verb === "GET";
    const codec: Codec<string> = {
      body: hasNoBody ? "none" : "whole",
      decode: (body, call) => read(hasNoBody ? empty : body, "rest", call),
      write(message, context) {
        const text = encode(message);
        return typeof text === "string" ? written(text, context) : text.then((whole) => written(whole, context));
      },
    };
    addUnaryRoute(app, hasNoBody ? ["GET", "HEAD"] : "POST", restPath, (call, source) => {
      const problem = hasNoBody ? bodyProblem(source) : jsonProblem(source);
      return exchange(method, options, route(call, "rest", rpc), source, { ...codec, problem });
    });
  }
}

function written(body: ByteText, { answerHeaders }: CallContext): Written<string> {
  const own = { "content-type": "application/json", "content-length": String(body.length) };
  return { status: 200, headers: { ...answerHeaders, ...own }, body };
}

function bodyProblem({ stream }: Source): ServiceError | undefined {
  if (!hasBody(stream as IncomingMessage)) return undefined;
  return invalidRequest("", "body.absent", "a GET request has no body");
}

/** `application/json`, with no parameter or `charset=utf-8` (RFC 8259 §8.1, RFC 9110 §5.6.6, §8.3.1). */
function jsonProblem({ headers }: Source): ServiceError | undefined {
  const { "content-type": type, "content-encoding": encoding = "identity" } = headers;
  if (type === undefined || !/^application\/json\s*(;\s*(charset=("utf-8"|utf-8)\s*)?)*$/i.test(type))
    return new ServiceError("unsupported_media_type", "content type must be application/json in UTF-8");
  if (encoding.toLowerCase() === "identity") return undefined;
  return new ServiceError("unsupported_media_type", "content encodings are not supported on this route");
}
