/** The gateway's HTTP server: fastify's router over both kinds of connection, with every protocol's routes. */
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { clientRefusal, endWithAnswer, expectationFailed, expectsMore } from "../base/bare-answer.ts";
import type { Clock } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import { newRequestId, parseRequestId, type RandomFill, type RequestId } from "../base/ids.ts";
import type { Call } from "./call.ts";
import { registerStock } from "./connect/stock.ts";
import { callerGone } from "./deadline.ts";
import { edgeOf, headerValues } from "./edge.ts";
import { toEnvelope, toServiceError } from "./errors.ts";
import { type AdapterOptions, isAnswered } from "./exchange.ts";
import { isPlainUnaryGrpc, plainGrpcConstraint, registerGrpc } from "./grpc/adapter.ts";
import { authorityProblem } from "./host.ts";
import { refuse } from "./json-answer.ts";
import { createListener, type Listener, type ListenerOptions } from "./listener.ts";
import type { ServedMethod, ServiceBinding } from "./methods.ts";
import { openPaths, registerOpen } from "./open/open-services.ts";
import { type Page, pageMethods, registerPages } from "./pages/page.ts";
import { registerRest } from "./rest/adapter.ts";
import { boundUnreadBody } from "./unread-body.ts";

export interface ServerOptions extends AdapterOptions {
  readonly methods: readonly ServedMethod[];
  /** Pages beside the routes of the methods. */
  readonly pages?: readonly Page[];
  /** Services that need no credentials, and have no JSON routes. */
  readonly openServices?: readonly ServiceBinding[];
  readonly listener: Omit<ListenerOptions, "handler" | "onClientError" | "onTunnel">;
  readonly clock: Clock;
  readonly random: RandomFill;
  /** Told of every request once its answer is out, or its caller gone. */
  readonly onAnswered: (exchange: Answered) => void;
}

/** One finished exchange, for the log and the metrics. */
export interface Answered {
  readonly call: Call;
  readonly method: string;
  /** Path without its query, which could carry anything. */
  readonly path: string;
  readonly httpVersion: string;
  /** Of the answer; 499 where the caller was gone before all of it was out. */
  readonly status: number;
  readonly durationMs: number;
  readonly remoteAddress: string;
}

/** Makes the server. Nothing is bound until `listen`. */
export async function createServer(options: ServerOptions): Promise<Listener> {
  const app = Fastify({
    exposeHeadRoutes: false,
    return503OnClosing: false,
    // Bodies are read by the adapters, which know the limit of each method.
    bodyLimit: Number.MAX_SAFE_INTEGER,
    // Hooks have not run when the path itself cannot be read.
    frameworkErrors: (error, request, reply) => {
      beginCall(request, reply, options);
      refuse(options.service, toRefusal(error), request, reply);
    },
    routerOptions: { constraints: { wire: wire as never } },
  });
  const { methods, pages = [], openServices = [] } = options;
  const allowed = allowedMethods(methods, pages, openServices);
  addCalls(app, options, allowed);
  const stopping = new AbortController();
  const refuseHere = (request: FastifyRequest, reply: FastifyReply) =>
    refuseRoute(options.service, allowed, request, reply);
  app.setErrorHandler((error: FastifyError, request, reply) => {
    // A method that fastify does not know, which HTTP/2 lets through, comes here before any hook has run.
    if (request.call === undefined) beginCall(request, reply, options);
    if (noRouteCodes.has(error.code)) refuseHere(request, reply);
    else refuse(options.service, toRefusal(error), request, reply);
  });
  app.setNotFoundHandler(refuseHere);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null, undefined));
  registerRest(app, methods, options);
  registerGrpc(app, methods, options);
  registerPages(app, options.service, pages);
  await app.register(async (scope) => registerStock(scope, methods, options));
  const openOptions = { service: options.service, limits: options.limits, stopping: stopping.signal };
  await app.register(async (scope) => registerOpen(scope, openServices, openOptions));
  await app.ready();
  const listener = createListener({
    ...options.listener,
    handler: (request, response) => app.routing(request, response),
    onClientError: (error, socket) => answerClientError(options, error, socket),
    onTunnel: (socket) => answerTunnel(options, socket),
  });
  return {
    listen: listener.listen,
    close: async (graceMs) => {
      stopping.abort();
      const clean = await listener.close(graceMs);
      await app.close();
      return clean;
    },
  };
}

/** Routes of the stock plugin have no constraint; those of the gRPC adapter match what it serves. */
const wire = {
  name: "wire",
  storage: () => {
    const stores = new Map<unknown, never>();
    return {
      get: (value: unknown) => stores.get(value) ?? null,
      set: (value: unknown, store: unknown) => void stores.set(value, store as never),
    };
  },
  deriveConstraint: (request: IncomingMessage) => (isPlainUnaryGrpc(request) ? plainGrpcConstraint.wire : undefined),
};

function addCalls(app: FastifyInstance, options: ServerOptions, allowed: ReadonlyMap<string, string>): void {
  app.decorateRequest("call");
  app.decorateRequest("edge");
  app.decorateRequest("response");
  app.addHook("onRequest", (request, reply, done) => {
    beginCall(request, reply, options);
    const problem = authorityProblem(request.raw);
    if (problem !== undefined) refuse(options.service, problem, request, reply);
    else if (expectsMore(request.raw.headers.expect))
      refuse(options.service, expectationFailed(), request, reply, {}, 417);
    // Before fastify looks at the content type, which comes after the route in the order of refusal.
    else if (request.is404) refuseRoute(options.service, allowed, request, reply);
    else done();
  });
}

function beginCall(request: FastifyRequest, reply: FastifyReply, options: ServerOptions): void {
  const { clock, random, onAnswered } = options;
  const { raw } = request;
  const requestId = requestIdOf(raw.rawHeaders) ?? newRequestId(clock, random);
  const call: Call = { requestId, receivedAtMs: clock.now() };
  const edge = edgeOf(raw);
  request.call = call;
  request.edge = edge;
  request.response = reply.raw;
  reply.header("x-request-id", requestId);
  reply.header("cache-control", "no-store");
  boundUnreadBody(raw, reply.raw);
  reply.raw.once("close", () => {
    const answered = isAnswered(reply.raw);
    // Whatever the answer was going to be, nobody has all of it.
    if (!answered) call.refusal ??= callerGone;
    onAnswered({
      call,
      method: edge.method,
      path: pathOf(edge.url),
      httpVersion: raw.httpVersion,
      status: answered ? reply.raw.statusCode : callerGone.httpStatus,
      durationMs: clock.now() - call.receivedAtMs,
      remoteAddress: edge.remoteAddress,
    });
  });
}

/** The caller's own request id, if it sent exactly one good one. */
function requestIdOf(rawHeaders: readonly string[]): RequestId | undefined {
  const [value, ...others] = headerValues(rawHeaders, "x-request-id");
  return value === undefined || others.length > 0 ? undefined : parseRequestId(value);
}

/**
 * Fastify's own words for a method that no route here has: one that it does not know, and QUERY (RFC 10008), for
 * which it has rules of its own.
 */
const noRouteCodes: ReadonlySet<string> = new Set(["FST_ERR_NOT_FOUND", "FST_ERR_ROUTE_MISSING_CONTENT_TYPE"]);

/** The refusal behind an error of fastify's own. */
function toRefusal(error: FastifyError | ServiceError): ServiceError {
  if (error instanceof ServiceError) return error;
  if (error.code === "FST_ERR_BAD_URL" || error.code === "FST_ERR_MAX_PARAM_LENGTH") return noRoute();
  return toServiceError(error);
}

function noRoute(): ServiceError {
  return new ServiceError("no_route", "there is no such route");
}

function refuseRoute(
  service: string,
  allowed: ReadonlyMap<string, string>,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const allow = request.edge.method === "CONNECT" ? tunnelAllow : allowed.get(pathOf(request.edge.url));
  if (allow === undefined) refuse(service, noRoute(), request, reply);
  else refuse(service, new ServiceError("method_not_allowed", `method must be ${allow}`), request, reply, { allow });
}

/** `Allow` of every path. */
function allowedMethods(
  methods: readonly ServedMethod[],
  pages: readonly Page[],
  openServices: readonly ServiceBinding[],
): ReadonlyMap<string, string> {
  return new Map([
    ...methods.flatMap(({ verb, restPath, rpcPath }) => [
      [restPath, verb === "GET" ? "GET, HEAD" : "POST"] as const,
      [rpcPath, verb === "GET" ? "POST, GET" : "POST"] as const,
    ]),
    ...pages.map(({ path }) => [path, pageMethods] as const),
    ...openPaths(openServices).map((path) => [path, "POST"] as const),
  ]);
}

function pathOf(url: string): string {
  const query = url.indexOf("?");
  return query === -1 ? url : url.slice(0, query);
}

/** Answers what is not HTTP/1.1, as far as the connection still takes an answer, and closes it. */
function answerClientError(options: ServerOptions, error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === "ECONNRESET") return void socket.destroy();
  const [status, refusal] = clientRefusal(error.code);
  endWithRefusal(options, status, refusal, socket);
}

/** A proxy is asked for a tunnel, which HTTP/1.1 gives no other answer than one on the connection itself. */
function answerTunnel(options: ServerOptions, socket: Duplex): void {
  socket.on("error", () => socket.destroy());
  endWithRefusal(options, "405 Method Not Allowed", noTunnel(), socket, { Allow: tunnelAllow });
}

function endWithRefusal(
  { service, clock, random }: ServerOptions,
  status: string,
  refusal: ServiceError,
  socket: Duplex,
  headers: Readonly<Record<string, string>> = {},
): void {
  const requestId = newRequestId(clock, random);
  const body = JSON.stringify(toEnvelope(service, requestId, refusal));
  endWithAnswer(socket, status, { "X-Request-Id": requestId, ...headers }, body);
}

/** Methods that some path has. */
const tunnelAllow = "GET, HEAD, POST";

function noTunnel(): ServiceError {
  return new ServiceError("method_not_allowed", `method must be one of ${tunnelAllow}`);
}
