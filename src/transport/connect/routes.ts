/**
 * Connect's plugin for fastify, with answers that are written here. The plugin would tell standard error, with a stack, of
 * every caller who leaves before its answer is out, which is nobody's failure and has a line of the log already.
 */
import { Code, ConnectError, type ConnectRouter, type ContextValues } from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerRequest } from "@connectrpc/connect/protocol";
import { fastifyConnectPlugin } from "@connectrpc/connect-fastify";
import { compressionBrotli, compressionGzip, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { ServiceError } from "../../base/errors.ts";
import { kRequest } from "../calls/exchange.ts";
import { answerHeaders } from "../calls/lifecycle.ts";

export interface ConnectRoutes {
  /** Adds methods to the router, and may wrap its handlers. */
  readonly routes: (router: ConnectRouter) => void;
  /** With the request, under `kRequest`. */
  readonly contextValues: (request: FastifyRequest) => ContextValues;
}

/** Serves what `routes` adds. Bodies are left to the handlers: the app must accept any content type. */
export function serveConnect(app: FastifyInstance, { routes, contextValues }: ConnectRoutes): void {
  app.register(fastifyConnectPlugin, {
    acceptCompression: [compressionGzip, compressionBrotli],
    routes: (router) => {
      routes(router);
      router.handlers.forEach((handler, i) => {
        router.handlers[i] = writing(handler);
      });
    },
    contextValues,
  });
}

/** The handler with its answer written: the plugin has nothing left to do, and says nothing where a call was aborted. */
function writing(handler: UniversalHandler): UniversalHandler {
  const write = async (universal: UniversalServerRequest): Promise<never> => {
    const request = universal.contextValues?.get(kRequest);
    if (request === undefined) throw new Error("call without a request");
    const { call, response } = request;
    try {
      const answer = await handler(universal);
      for (const [name, value] of Object.entries(answerHeaders(call))) response.setHeader(name, value);
      await universalResponseToNodeResponse(answer, response);
    } catch (cause) {
      if (!response.destroyed && !response.closed && !response.errored) {
        // Nothing more can be said in the answer's own terms: it ends short.
        call.refusal ??= new ServiceError("internal", "the answer could not be written", { cause });
        response.destroy();
      }
    }
    throw new ConnectError("the answer has been written", Code.Aborted);
  };
  return Object.assign(write, handler);
}
