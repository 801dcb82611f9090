/** The operator listener: liveness, readiness, metrics and the logs, apart from what callers reach. */
import { type FastifyInstance, type FastifyReply, fastify } from "fastify";
import type { Clock } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import { newRequestId, parseRequestId, type RandomFill, type RequestId } from "../base/ids.ts";
import type { Timers } from "../base/timers.ts";
import type { PublishedLogs } from "../ledger/ports.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { addLedgerRoutes } from "./ledger-routes.ts";
import { type ReadinessCheck, runChecks } from "./readiness.ts";
import { shareRuns } from "./share-runs.ts";

export interface OpsListenerOptions {
  /** Name of the service, in every answer. */
  readonly serviceName: string;
  readonly checks: readonly ReadinessCheck[];
  readonly metrics: Pick<Metrics, "expose">;
  /** The logs to serve; absent where whoever reaches the listener may not see them. */
  readonly logs?: PublishedLogs | undefined;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: RandomFill;
}

/** The listener, before and after it listens. */
export interface OpsListener {
  /** Begins to listen; resolves with the port, which the system chose where 0 was given. */
  listen(address: { readonly host: string; readonly port: number }): Promise<{ readonly port: number }>;
  /** Stops listening and ends open connections. */
  close(): Promise<void>;
}

/**
 * Makes the listener. `GET /livez` is 200 while the process answers at all. `GET /readyz` runs every check and is 200
 * where all hold, else 503; requests that come while the checks run share their result. `GET /metrics` is the
 * Prometheus text format. The logs, where they are served, are below `/ledger`.
 */
export function createOpsListener(options: OpsListenerOptions): OpsListener {
  const { serviceName } = options;
  const server = fastify({ logger: false, forceCloseConnections: true, bodyLimit: 1024, requestTimeout: 10_000 });
  const readiness = shareRuns(() => runChecks(options.checks, options.timers));

  // Nothing here takes a body: one that comes is neither read nor a reason for another answer.
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("*", (_request, _body, done) => done(null));
  server.addHook("onRequest", async (_request, reply) => {
    reply.header("cache-control", "no-store");
  });
  server.get("/livez", async () => ({ service: serviceName, status: "ok" }));
  server.get("/readyz", async (_request, reply) => {
    const { ready, checks } = await readiness();
    return reply.code(ready ? 200 : 503).send({ service: serviceName, status: ready ? "ready" : "not_ready", checks });
  });
  server.get("/metrics", async (_request, reply) => {
    const { contentType, body } = await options.metrics.expose();
    return reply.header("content-type", contentType).send(body);
  });
  if (options.logs !== undefined) addLedgerRoutes(server, serviceName, options.logs);
  refuseTheRest(server, options);

  return {
    async listen({ host, port }) {
      await server.listen({ host, port });
      const [address] = server.addresses();
      return { port: typeof address === "object" ? address.port : port };
    },
    close: () => server.close(),
  };
}

/** 404, 405 with `Allow`, and errors, all in the error envelope. */
function refuseTheRest(server: FastifyInstance, { serviceName, logger, clock, random }: OpsListenerOptions): void {
  const refuse = (reply: FastifyReply, requestId: RequestId, { code, reason, httpStatus, message }: ServiceError) =>
    reply
      .code(httpStatus)
      .header("x-request-id", requestId)
      .send({ service: serviceName, status: "error", error: { code, reason, message, request_id: requestId } });
  const requestIdOf = (headers: Readonly<Record<string, unknown>>): RequestId => {
    const given = headers["x-request-id"];
    return (typeof given === "string" ? parseRequestId(given) : undefined) ?? newRequestId(clock, random);
  };
  const paths = new Set(["/livez", "/readyz", "/metrics"]);

  server.setNotFoundHandler((request, reply) => {
    const path = request.url.split("?", 1)[0] as string;
    const requestId = requestIdOf(request.headers);
    if (!paths.has(path)) return refuse(reply, requestId, new ServiceError("no_route", "there is no such route"));
    reply.header("allow", "GET, HEAD");
    return refuse(reply, requestId, new ServiceError("method_not_allowed", "the method is not allowed here"));
  });
  server.setErrorHandler((error: Error & { readonly statusCode?: number }, request, reply) => {
    const requestId = requestIdOf(request.headers);
    if (error instanceof ServiceError) {
      if (error.httpStatus >= 500) logger.warn({ err: error, request_id: requestId }, "operator request refused");
      return refuse(reply, requestId, error);
    }
    // What fastify itself refuses is the request's fault: a body too large, or of a type that nobody reads here.
    if (error.statusCode !== undefined && error.statusCode < 500) {
      return refuse(reply, requestId, new ServiceError("invalid_request", "the request is not understood"));
    }
    logger.error({ err: error, request_id: requestId }, "operator request failed");
    return refuse(reply, requestId, new ServiceError("internal", "internal error"));
  });
}
