/**
 * Registers Connect's own handlers for what the thin adapters do not carry: Connect and gRPC-Web, compressed gRPC, GET.
 * The handlers are wrapped: their own refusals (a malformed or oversized message) never pass an interceptor, and must
 * look like every other refusal.
 */

import type { DescMethod } from "@bufbuild/protobuf";
import { type ConnectRouter, createContextValues, type MethodImpl } from "@connectrpc/connect";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import type { FastifyInstance } from "fastify";
import { callOf, kCall } from "../calls/call.ts";
import { toConnectError, toServiceError } from "../calls/errors.ts";
import { type AdapterOptions, kRequest } from "../calls/exchange.ts";
import type { ServedMethod } from "../calls/methods.ts";
import { binaryOptions } from "../codec/binary-records.ts";
import { serveConnect } from "./routes.ts";
import { wrap } from "./wrap.ts";

/** Refuses unknown members, and text that is not UTF-8. Connect reads `textDecoder`, though its types lack it. */
export const strictJson = {
  ignoreUnknownFields: false,
  textDecoder: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }),
};

/** `type/subtype` and its parameters (RFC 9110 §8.3.1), as far as fastify must understand them. */
const mediaType = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,127}\/[!#$%&'*+.^_`|~0-9A-Za-z-]{1,127}[ \t]*(;[^,]*)?$/;

/** Serves the methods on gRPC, gRPC-Web and Connect. */
export function registerConnectPlugin(
  app: FastifyInstance,
  methods: readonly ServedMethod[],
  options: AdapterOptions,
): void {
  acceptAnyContentType(app);
  serveConnect(app, {
    routes: (router) => {
      for (const method of methods) addMethod(router, method, options);
      router.handlers.forEach((handler, i) => {
        router.handlers[i] = wrap(handler, options);
      });
    },
    contextValues: (request) => createContextValues().set(kCall, request.call).set(kRequest, request),
  });
}

/** Leaves every body to the handlers: credentials are checked before the content type. */
export function acceptAnyContentType(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null, undefined));
  // Fastify refuses a type that it cannot parse before any handler runs. Such a request continues with a type that no
  // handler serves.
  app.addHook("onRequest", (request, _reply, done) => {
    const type = request.raw.headers["content-type"];
    if (type !== undefined && !mediaType.test(type)) request.raw.headers["content-type"] = "unreadable/unreadable";
    done();
  });
}

function addMethod(router: ConnectRouter, { rpc, spec }: ServedMethod, options: AdapterOptions): void {
  const { gate, service, interceptors, limits, jsonTypes } = options;
  // Options of a method replace the router's, so all are given.
  router.rpc(spec.method as DescMethod, spec.impl as MethodImpl<DescMethod>, {
    interceptors,
    readMaxBytes: limits.maxBodyBytes(rpc),
    acceptCompression: [compressionGzip, compressionBrotli],
    jsonOptions: { ...strictJson, ...(jsonTypes !== undefined && { registry: jsonTypes }) },
    binaryOptions,
    requestGate: async (context) => {
      const call = callOf(context);
      const { inbound } = context.values.get(kRequest) ?? {};
      if (inbound === undefined) throw new Error("call without a request");
      try {
        await gate({ call, inbound, rpc, signal: context.signal });
      } catch (thrown) {
        throw toConnectError(service, call.requestId, toServiceError(thrown));
      }
    },
  });
}
