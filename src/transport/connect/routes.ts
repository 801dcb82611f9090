/**
 * Handlers of Connect as routes of fastify. Its own plugin for it writes to standard error whenever a caller leaves before
 * its answer is out, which is nobody's failure and has a line of the log already.
 */
import { type ConnectRouter, type ContextValues, createConnectRouter } from "@connectrpc/connect";
import {
  compressionBrotli,
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { ServiceError } from "../../base/errors.ts";

export interface ConnectRoutes {
  /** Adds methods to the router, and may wrap its handlers. */
  readonly routes: (router: ConnectRouter) => void;
  readonly contextValues: (request: FastifyRequest) => ContextValues;
}

/** Serves what `routes` adds. Bodies are left to the handlers: the app must accept any content type. */
export function serveConnect(app: FastifyInstance, { routes, contextValues }: ConnectRoutes): void {
  const router = createConnectRouter({ acceptCompression: [compressionGzip, compressionBrotli] });
  routes(router);
  for (const handler of router.handlers) {
    app.all(handler.requestPath, async (request, reply) => {
      const { raw: response } = reply;
      try {
        const answer = await handler(
          universalRequestFromNodeRequest(request.raw, response, undefined, contextValues(request)),
        );
        // Fastify keeps headers until it sends, which it does not do here.
        for (const [name, value] of Object.entries(reply.getHeaders()))
          if (value !== undefined) response.setHeader(name, value);
        await universalResponseToNodeResponse(answer, response);
      } catch (cause) {
        if (response.destroyed || response.closed || response.errored) return;
        // Nothing more can be said in the answer's own terms: it ends short.
        request.call.refusal ??= new ServiceError("internal", "the answer could not be written", { cause });
        response.destroy();
      }
    });
  }
}
