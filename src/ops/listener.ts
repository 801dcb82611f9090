/** The operator listener: liveness, readiness, metrics and the logs, separate from the callers' listener. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import type { Clock } from "../base/clock.ts";
import { refusalHeaders, ServiceError, toEnvelope } from "../base/errors.ts";
import type { RandomFill, RequestId } from "../base/ids.ts";
import { orUndefined } from "../base/json.ts";
import { isLoopbackHost } from "../base/network.ts";
import { singleFlight, type Timers } from "../base/timers.ts";
import { continueIfExpected } from "../http/body.ts";
import type { OnDefect } from "../http/connection.ts";
import { inboundOf, requestIdOf } from "../http/inbound-request.ts";
import { createListener, noSchemas } from "../http/listener.ts";
import { expectationProblem, rawRefusals } from "../http/raw-answer.ts";
import type { TlsFiles } from "../http/replaceable-tls.ts";
import { describeCause, type Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { addConsoleRoutes } from "./console-routes.ts";
import { refusalLog, type ServedLogs } from "./ledger-access.ts";
import { addLedgerRoutes } from "./ledger-routes.ts";
import { type ReadinessCheck, runChecks } from "./readiness.ts";
import { addSignInRoutes } from "./sign-in-routes.ts";

export interface OpsListenerOptions {
  readonly serviceName: string;
  readonly checks: readonly ReadinessCheck[];
  readonly metrics: Pick<Metrics, "expose">;
  /** The logs and their viewers; absent if they are not served. */
  readonly logs?: ServedLogs | undefined;
  /** Plaintext if absent. */
  readonly tls?: TlsFiles;
  /** Whether it listens on loopback: then it serves only requests addressed to this machine. */
  readonly loopback: boolean;
  /** Both call back in the request's turn; only requests other than probes may be refused instead. */
  readonly hold?: { readonly operatorRequest: Hold; readonly probe: Hold };
  /** Called for unexpected errors that ended a connection. */
  readonly onDefect: OnDefect;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: RandomFill;
}

export type OpsListener = ReturnType<typeof createOpsListener>;

/**
 * Creates the listener. `GET /livez` is 200 while the process answers at all. `GET /readyz` runs every check and is 200
 * if all pass, else 503; concurrent requests share one run. `GET /metrics` is the Prometheus text format. The logs, if
 * served, are below `/ledger`, and the console below `/console`.
 */
export function createOpsListener(options: OpsListenerOptions) {
  const { serviceName, hold, tls } = options;
  const server = fastify({
    schemaController: noSchemas,
    logger: false,
    bodyLimit: 1024,
    // Hooks have not run if the path itself cannot be read.
    frameworkErrors: (_error, request, reply) =>
      void refuse(options, request, reply, new ServiceError("no_route", "there is no such route")),
  });
  const readiness = singleFlight(() => runChecks(options.checks, options.timers));
  const exposition = singleFlight(() => options.metrics.expose());

  // A body that no route needs is not read, and does not change the answer.
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("*", (_request, _body, done) => done(null));
  server.addHook("onRequest", async (request, reply) => {
    reply.header("cache-control", "no-store");
    nameExchange(options, request, reply);
    const unmet = expectationProblem(request.headers.expect);
    if (unmet !== undefined) return refuse(options, request, reply, unmet, 417);
    requireClear(request.raw);
    if (options.loopback && !isLoopbackAuthority(request.headers.host))
      throw new ServiceError("no_route", "nothing is served under this host name: use localhost or a loopback address");
    return undefined;
  });
  const methodsOf = watchPaths(server);
  server.get("/livez", async () => ({ service: serviceName, status: "ok" }));
  server.get("/readyz", async (_request, reply) => {
    const { ready, checks } = await readiness();
    return reply.code(ready ? 200 : 503).send({ service: serviceName, status: ready ? "ready" : "not_ready", checks });
  });
  server.get("/metrics", async (_request, reply) => {
    const { contentType, body } = await exposition();
    return reply.header("content-type", contentType).send(body);
  });
  if (options.logs !== undefined) {
    const noteRefusal = refusalLog(options.logger, options.timers);
    addLedgerRoutes(server, options, options.logs, noteRefusal);
    addSignInRoutes(server, options.logs.signIn, options.logger, noteRefusal);
    addConsoleRoutes(server, options.logs.consolePage);
  }
  refuseTheRest(server, options, methodsOf);
  const listener = createListener({
    ...limits,
    ...rawRefusals({
      ...options,
      envelopeOf: (requestId, refusal) => envelopeOf(options, requestId, refusal),
      allow: "GET, HEAD",
      noTunnel: new ServiceError("method_not_allowed", "the method is not allowed here"),
    }),
    ...(tls !== undefined && { tls }),
    onDefect: options.onDefect,
    // Scrapers and tools of the deployment may all come through one proxy.
    isShared: () => true,
    isHttp1Only: true,
    admit: {
      /** Queues the request beside the callers' requests; probes are always answered. */
      request(request, response, start) {
        const take = probes.has(request.url) ? hold?.probe : hold?.operatorRequest;
        if (take === undefined) start();
        else take(request, response, start);
      },
      stream() {},
    },
    handler(request, response) {
      continueIfExpected(request, response);
      server.routing(request, response);
    },
  });
  return {
    /** Starts to listen. Resolves with the port, which the system chooses for 0. */
    async listen({ host, port }: { readonly host: string; readonly port: number }) {
      await server.ready();
      return listener.listen(host, port);
    },
    replaceTls: listener.replaceTls,
    async close() {
      await listener.close(0);
      await server.close();
    },
  };
}

const limits = {
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 10_000,
  /** Longer than the intervals of scrapers and probes. */
  idleTimeoutMs: 72_000,
  answerTimeoutMs: 30_000,
  maxHeaderBytes: 16 * 1024,
  maxConnections: 1_024,
};

/** Throws `invalid_request` for an ambiguous request. */
function requireClear({ headers, headersDistinct, url = "" }: IncomingMessage): void {
  // RFC 9112 §3.2, RFC 9110 §5.3. Node uses the first.
  for (const name of ["host", "content-type"])
    if ((headersDistinct[name]?.length ?? 0) > 1) throw unclear(`the request must name one ${name}`);
  // RFC 9112 §6.1. Node leaves codings below this one on the body.
  if (/[,\s]chunked$/i.test(headers["transfer-encoding"] ?? "")) throw unclear("the only transfer coding is chunked");
  if (orUndefined(() => decodeURIComponent(url)) === undefined)
    throw unclear("the URL is not UTF-8 in percent encoding");
}

function unclear(message: string): ServiceError {
  return new ServiceError("invalid_request", message);
}

const probes: ReadonlySet<string | undefined> = new Set(["/livez", "/readyz"]);

type Hold = (request: IncomingMessage, response: ServerResponse, start: () => void) => void;

/** Returns a function that lists the methods of a path, for routes that are added from now on. */
function watchPaths(server: FastifyInstance): (path: string) => readonly string[] {
  const routes: { readonly pattern: RegExp; readonly methods: readonly string[] }[] = [];
  server.addHook("onRoute", ({ url, method }) => {
    const pattern = new RegExp(`^${url.replaceAll(/:\w+/g, "[^/]+").replace("*", ".*")}$`);
    routes.push({ pattern, methods: [method].flat() });
  });
  return (path) => [...new Set(routes.filter(({ pattern }) => pattern.test(path)).flatMap(({ methods }) => methods))];
}

/** 404, 405 with `Allow`, and errors, all in the error envelope. */
function refuseTheRest(
  server: FastifyInstance,
  options: OpsListenerOptions,
  methodsOf: (path: string) => readonly string[],
): void {
  const { logger, timers } = options;
  const noteOverload = refusalLog(logger, timers, "too many requests at once on the operator listener", {});

  server.setNotFoundHandler((request, reply) => {
    const path = request.url.split("?", 1)[0] as string;
    const methods = methodsOf(path);
    if (methods.length === 0)
      return refuse(options, request, reply, new ServiceError("no_route", "there is no such route"));
    reply.header("allow", methods.toSorted().join(", "));
    return refuse(options, request, reply, new ServiceError("method_not_allowed", "the method is not allowed here"));
  });
  server.setErrorHandler((error: Error & { readonly statusCode?: number }, request, reply) => {
    if (error instanceof ServiceError) {
      const { message, reason, details } = error;
      const fields = { request_id: reply.getHeader("x-request-id"), reason };
      if (error.reason === "overloaded" || error.reason === "rate_limited") noteOverload();
      else if (error.httpStatus >= 500)
        logger.warn({ ...fields, detail: message, cause: describeCause(details.cause) }, "operator request refused");
      return refuse(options, request, reply, error);
    }
    if (error.statusCode === 413)
      return refuse(options, request, reply, new ServiceError("body_too_large", "the body is too large"));
    // Fastify's own refusals are the request's fault: a body too large, or of an unsupported type.
    if (error.statusCode !== undefined && error.statusCode < 500) {
      return refuse(options, request, reply, new ServiceError("invalid_request", "the request is malformed"));
    }
    logger.error({ err: error, request_id: reply.getHeader("x-request-id") }, "operator request failed");
    return refuse(options, request, reply, new ServiceError("internal", "internal error"));
  });
}

/** host [ ":" port ] (RFC 9110 §7.2). */
const authority = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?$/;

/**
 * Whether a request's `Host` names this machine: `localhost`, `127.0.0.0/8` or `[::1]`, with any port. This
 * prevents DNS rebinding: a page in a local browser can make its own host name resolve to loopback and read the
 * answers, but it cannot send another `Host` than that name.
 */
export function isLoopbackAuthority(host: string | undefined): boolean {
  const [, name] = authority.exec(host ?? "") ?? [];
  return name !== undefined && isLoopbackHost(name.toLowerCase());
}

// Refusals: in the error envelope, with the id of the exchange.

/** Sets the header with the id of the exchange, the caller's if it is valid, and returns the id. */
function nameExchange({ clock, random }: OpsListenerOptions, request: FastifyRequest, reply: FastifyReply): RequestId {
  const requestId = requestIdOf(inboundOf(request.raw), clock, random);
  reply.header("x-request-id", requestId);
  return requestId;
}

/** Answers with the envelope, under the reason's status or another. */
function refuse(
  options: OpsListenerOptions,
  request: FastifyRequest,
  reply: FastifyReply,
  refusal: ServiceError,
  status: number = refusal.httpStatus,
): FastifyReply {
  const given = reply.getHeader("x-request-id") as RequestId | undefined;
  const requestId = given ?? nameExchange(options, request, reply);
  reply.headers(refusalHeaders(refusal));
  return reply.code(status).send(envelopeOf(options, requestId, refusal));
}

/** The envelope without violations, which are for programs. */
function envelopeOf({ serviceName }: OpsListenerOptions, requestId: RequestId, refusal: ServiceError) {
  const envelope = toEnvelope(serviceName, requestId, refusal);
  const { violations: _, ...error } = envelope.error;
  return { ...envelope, error };
}
