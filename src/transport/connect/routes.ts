/**
 * Connect's plugin for fastify, with answers that are written here. The plugin would write a stack trace to standard
 * error for every caller that disconnects early, which is no failure and is logged already.
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
  /** Adds methods to the router. May wrap its handlers. */
  readonly routes: (router: ConnectRouter) => void;
  /** Holds the request under `kRequest`. */
  readonly contextValues: (request: FastifyRequest) => ContextValues;
}

/** Serves the methods that `routes` adds. The app must accept any content type: handlers read the bodies. */
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

/** Wraps the handler and writes its answer, so that the plugin writes nothing, even for aborted calls. */
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
        // The answer has begun, so it can only be cut short.
        call.refusal ??= new ServiceError("internal", "the answer could not be written", { cause });
        response.destroy();
      }
    }
    throw new ConnectError("the answer has been written", Code.Aborted);
  };
  return Object.assign(write, handler);
}
