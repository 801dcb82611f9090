import type { ServerHttp2Stream } from "node:http2";
import { type ConnectRouter, createConnectRouter, createContextValues } from "@connectrpc/connect";
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import type { FastifyInstance, FastifyReply } from "fastify";
import { kCall } from "../calls/call.ts";
import { kRequest } from "../calls/exchange.ts";

/**
 * Serves the handlers of a router, wrapped, on a scope of fastify. Connect's own plugin would do, but that it tells
 * standard error, stack and all, of every caller who breaks its connection while an answer is written.
 *
 * @param wrap returns what it is given with a handler that never rejects
 */
export function mountRouter(
  scope: FastifyInstance,
  routes: (router: ConnectRouter) => void,
  wrap: (handler: Handler) => Handler,
): void {
  const router = createConnectRouter();
  routes(router);
  for (const handler of router.handlers.map(wrap)) {
    scope.all(handler.requestPath, async (request, reply) => {
      const values = createContextValues().set(kCall, request.call).set(kRequest, request);
      const answer = await handler(universalRequestFromNodeRequest(request.raw, reply.raw, undefined, values));
      // Fastify would write its headers with an answer of its own.
      for (const [name, value] of Object.entries(reply.getHeaders()))
        if (value !== undefined) reply.raw.setHeader(name, value);
      // Nobody is there to be told; the call is logged as canceled.
      await universalResponseToNodeResponse(answer, reply.raw).catch(() => breakOff(reply));
    });
  }
}

type Handler = ConnectRouter["handlers"][number];

/** Ends what cannot be answered to its end: the stream over HTTP/2, else the connection. */
function breakOff({ raw }: FastifyReply): void {
  const { stream } = raw as { readonly stream?: ServerHttp2Stream };
  (stream ?? raw).destroy();
}
