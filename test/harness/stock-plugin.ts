/**
 * Connect's stock plugin for fastify, which tests and measurements compare with: the gate and the checks are where
 * Connect has a place for them.
 */
import { createContextKey, createContextValues, type Interceptor } from "@connectrpc/connect";
import { fastifyConnectPlugin } from "@connectrpc/connect-fastify";
import type { FastifyRequest } from "fastify";
import { kCall, route } from "../../src/transport/calls/call.ts";
import { protocolOf, toConnectError, toServiceError } from "../../src/transport/calls/refusals.ts";
import type { registerUnary } from "../../src/transport/connect/unary.ts";

const kRequest = createContextKey<FastifyRequest | undefined>(undefined, { description: "request" });

/** Serves unary methods as `registerUnary` does. Requests must have their call. */
export const registerStock: typeof registerUnary = (app, methods, { service, gate, checks, limits }) => {
  const requestOf = ({ values }: { readonly values: ReturnType<typeof createContextValues> }): FastifyRequest => {
    const request = values.get(kRequest);
    if (request === undefined) throw new Error("call without a request");
    return request;
  };
  /** Waits for the work, and throws a refusal of it in Connect's terms. */
  const orRefuse = async <Result>({ call }: FastifyRequest, work: () => Promise<Result>): Promise<Result> => {
    try {
      return await work();
    } catch (thrown) {
      call.refusal = toServiceError(thrown);
      throw toConnectError(service, call.requestId, call.refusal);
    }
  };
  const checking: Interceptor = (next) => (asked) => {
    if (asked.stream) throw new Error("nothing streams here");
    const { method, message } = asked;
    const request = requestOf({ values: asked.contextValues });
    return orRefuse(request, async () => {
      checks(request.call, method.input, message);
      return next(asked);
    });
  };
  app.register(fastifyConnectPlugin, {
    contextValues: (request) => createContextValues().set(kRequest, request).set(kCall, request.call),
    routes: (router) => {
      for (const { rpc, spec } of methods)
        router.rpc(spec.method, spec.impl, {
          interceptors: [checking],
          readMaxBytes: limits.maxBodyBytes(rpc),
          jsonOptions: { ignoreUnknownFields: false },
          requestGate: (context) => {
            const request = requestOf(context);
            const call = route(request.call, protocolOf(request.raw.headers["content-type"]), rpc);
            return orRefuse(request, () => gate({ call, rpc, signal: context.signal }));
          },
        });
    },
  });
};
