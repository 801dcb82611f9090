/** The gateway's HTTP server: fastify's router for both kinds of connection, with the routes of every protocol. */
import type { ServerResponse } from "node:http";
import Fastify, { type FastifyError, type FastifyReply, type FastifyRequest } from "fastify";
import { overloaded, ServiceError, toEnvelope } from "../base/errors.ts";
import type { InboundRequest } from "../base/inbound-request.ts";
import { Admission, type AdmissionLimits, admissionMachine, defaultAdmissionLimits } from "../http/admission.ts";
import { type Admit, type AdmitOptions, createAdmit, ticketOf } from "../http/admit.ts";
import { headerProblem, inboundOf, pathOf } from "../http/inbound-request.ts";
import { createListener, type Listener, type ListenerOptions, noSchemas } from "../http/listener.ts";
import { expectationProblem, type RawRefusals, rawRefusals } from "../http/raw-answer.ts";
import { boundUnreadBody } from "../http/unread-body.ts";
import { answerHeaders, beginCall, type CallLifecycle, endCall } from "./calls/call.ts";
import type { AdapterOptions } from "./calls/exchange.ts";
import { pathsOfServices, type ServedMethod, type ServiceBinding, unaryMethods } from "./calls/methods.ts";
import {
  isRpcRequest,
  methodNotAllowed,
  protocolOf,
  sendRefusal,
  toServiceError,
  writeRefusal,
} from "./calls/refusals.ts";
import { servePlainGrpc } from "./connect/plain-grpc.ts";
import { bulkStreams, registerStreams } from "./connect/streams.ts";
import { registerUnary } from "./connect/unary.ts";
import type { Chain } from "./gate/chain.ts";
import { registerRest } from "./rest/adapter.ts";
import { type Page, pageMethods, registerPages } from "./rest/page.ts";
import { registerUnauthenticated } from "./unauthenticated/services.ts";

export interface ServerOptions extends AdapterOptions, Chain, CallLifecycle {
  readonly methods: readonly ServedMethod[];
  readonly pages?: readonly Page[];
  /** Services without JSON routes, for authenticated callers. */
  readonly rpcServices?: readonly ServiceBinding[];
  /** Services that need no credentials, and have no JSON routes. */
  readonly unauthenticatedServices?: readonly ServiceBinding[];
  /** Returns the address of a call, as `callerAddress` does. */
  readonly addressOf: (inbound: InboundRequest) => string;
  readonly admissionLimits?: AdmissionLimits;
  /** Whether memory is almost used up. Default: never. */
  readonly isShortOfMemory?: () => boolean;
  /** Receives functions that count waiting calls and calls with a place. */
  readonly watchAdmission: (waiting: () => number, places: () => number) => void;
  readonly listener: Omit<ListenerOptions, "handler" | "onStream" | "admit" | "addressOf" | keyof RawRefusals>;
}

/** Creates the server. Nothing is bound until `listen`. */
export async function createServer(options: ServerOptions): Promise<Listener & { readonly admit: Admit }> {
  const paths = pathsOf(options);
  const refuseRoute = (request: FastifyRequest, reply: FastifyReply) => {
    const { inbound } = request.call;
    const allow = inbound.method === "CONNECT" ? tunnelAllow : paths.get(pathOf(inbound.url))?.allow;
    if (allow === undefined) sendRefusal(options.service, noRoute(isRpcRequest(inbound)), request, reply);
    else sendRefusal(options.service, methodNotAllowed(allow), request, reply, { headers: { allow } });
  };
  /** Fastify handles a path that cannot be read, and a method that it does not know, before any hook runs. */
  const refuse = (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => {
    if (request.call === undefined) beginExchange(request, reply, options);
    if (noRouteCodes.has(error.code)) refuseRoute(request, reply);
    else sendRefusal(options.service, toRefusal(error), request, reply);
  };
  const app = Fastify({
    schemaController: noSchemas,
    exposeHeadRoutes: false,
    return503OnClosing: false,
    // The adapters read bodies and know the limit of each method.
    bodyLimit: Number.MAX_SAFE_INTEGER,
    frameworkErrors: refuse,
  });
  const { methods, pages = [], rpcServices = [], unauthenticatedServices = [] } = options;
  const rpcMethods = [...methods, ...rpcServices.flatMap(unaryMethods)];
  const stopping = new AbortController();
  app.decorateRequest("call");
  app.addHook("onRequest", (request, reply, done) => {
    beginExchange(request, reply, options);
    const problem = headerProblem(request.raw.rawHeaders);
    const unmet = expectationProblem(request.raw.headers.expect);
    if (problem !== undefined) sendRefusal(options.service, problem, request, reply);
    else if (unmet !== undefined) sendRefusal(options.service, unmet, request, reply, { status: 417 });
    // Runs before fastify looks at the content type, which is refused after the route.
    else if (request.is404) refuseRoute(request, reply);
    else done();
  });
  app.setErrorHandler(refuse);
  app.setNotFoundHandler(refuseRoute);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null, undefined));
  registerRest(app, methods, options);
  registerPages(app, options.service, pages);
  registerUnary(app, rpcMethods, options);
  registerStreams(app, rpcServices, bulkStreams({ ...options, stopping: stopping.signal }));
  registerUnauthenticated(app, unauthenticatedServices, { ...options, stopping: stopping.signal });
  await app.ready();
  const admission = new Admission(options.admissionLimits ?? defaultAdmissionLimits, admissionMachine());
  options.watchAdmission(
    () => admission.waiting,
    () => admission.places,
  );
  const admit = createAdmit({
    ...options,
    admission,
    refusalOf: overloadRefusal(paths, options),
    unauthenticatedPaths: pathsOfServices(unauthenticatedServices),
  });
  const listener = createListener({
    ...options.listener,
    admit,
    addressOf: (source) => options.addressOf(inboundOf(source)),
    handler: (request, response) => app.routing(request, response),
    onStream: servePlainGrpc(rpcMethods, options),
    ...rawRefusals({
      ...options,
      envelopeOf: (requestId, refusal) => toEnvelope(options.service, requestId, refusal),
      allow: tunnelAllow,
      noTunnel: methodNotAllowed(tunnelAllow),
    }),
  });
  return {
    admit,
    listen: listener.listen,
    replaceTls: listener.replaceTls,
    close: async (graceMs) => {
      stopping.abort();
      const clean = await listener.close(graceMs);
      await app.close();
      return clean;
    },
  };
}

/** Returns a function that writes and reports the refusal of a call that is not admitted. */
function overloadRefusal(paths: ReadonlyMap<string, ServedPath>, options: ServerOptions): AdmitOptions["refusalOf"] {
  return (inbound, httpVersion) => {
    const call = beginCall(inbound, options);
    const rpc = paths.get(pathOf(inbound.url))?.rpc;
    if (rpc !== undefined) call.rpc = rpc;
    const refusal = overloaded();
    // gRPC allows an answer of trailers only, which is one frame less.
    const { headers, trailers, ...rest } = writeRefusal(options.service, call, refusal);
    endCall(call, httpVersion, refusal.httpStatus, options);
    return { ...rest, headers: { ...answerHeaders(call), ...headers, ...trailers } };
  };
}

function beginExchange(request: FastifyRequest, reply: FastifyReply, options: ServerOptions): void {
  const { raw } = request;
  const call = beginCall(inboundOf(raw), options, ticketOf(raw));
  request.call = call;
  boundUnreadBody(raw, reply.raw, protocolOf(raw.headers["content-type"]) === "grpc");
  // The event may come twice: see `Http1Exchanges`.
  reply.raw.once("close", () => {
    endCall(call, raw.httpVersion, isAnswered(reply.raw) ? reply.raw.statusCode : undefined, options);
  });
}

/** Whether the whole answer has been written. Node reports a reset HTTP/2 stream as finished, but not as ended. */
function isAnswered({ writableEnded, writableFinished }: ServerResponse): boolean {
  return writableEnded && writableFinished;
}

/** Fastify's errors for methods without a route; QUERY (RFC 10008) has a special one. */
const noRouteCodes: ReadonlySet<string> = new Set(["FST_ERR_NOT_FOUND", "FST_ERR_ROUTE_MISSING_CONTENT_TYPE"]);

function toRefusal(error: FastifyError): ServiceError {
  if (error.code === "FST_ERR_BAD_URL" || error.code === "FST_ERR_MAX_PARAM_LENGTH") return noRoute();
  return toServiceError(error);
}

/** gRPC has a code for unknown methods (https://github.com/grpc/grpc/blob/master/doc/statuscodes.md). */
function noRoute(isOfRpc = false): ServiceError {
  return new ServiceError("no_route", "there is no such route", isOfRpc ? { code: "unimplemented" } : {});
}

interface ServedPath {
  /** Value of `Allow`. */
  readonly allow: string;
  /** Its method, if it is one with credentials that is not a stream. */
  readonly rpc?: string;
}

function pathsOf(options: ServerOptions): ReadonlyMap<string, ServedPath> {
  const { methods, pages = [], rpcServices = [], unauthenticatedServices = [] } = options;
  return new Map<string, ServedPath>([
    ...methods.flatMap(({ rpc, verb, restPath, rpcPath }) => [
      [restPath, { rpc, allow: verb === "GET" ? "GET, HEAD" : "POST" }] as const,
      [rpcPath, { rpc, allow: verb === "GET" ? "POST, GET" : "POST" }] as const,
    ]),
    ...pages.map(({ path }) => [path, { allow: pageMethods }] as const),
    ...pathsOfServices([...unauthenticatedServices, ...rpcServices]).map((path) => [path, { allow: "POST" }] as const),
    ...rpcServices.flatMap(unaryMethods).map(({ rpc, rpcPath }) => [rpcPath, { rpc, allow: "POST" }] as const),
  ]);
}

const tunnelAllow = "GET, HEAD, POST";
