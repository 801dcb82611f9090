/**
 * A service that does what a case says, over gRPC, gRPC-Web, Connect and the JSON routes, on HTTP/2 and HTTP/1.1 with
 * TLS. It checks tokens, proofs and certificates as the real one does, and keeps what it saw.
 */
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { DescMethod } from "@bufbuild/protobuf";
import { createContextValues } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { BulkStreamService } from "../../gen/platform/bulk/v1/streams_pb.ts";
import { type Arrival, arrivalKey, callRouter } from "./calls.ts";
import type { ScriptedIssuer } from "./issuer.ts";
import { serveJson } from "./json-routes.ts";
import { ScriptedLog } from "./log.ts";
import { bulkRoutes, routes } from "./protocol.ts";
import { methods } from "./requests.ts";
import type { Act, SeenCall, SeenRoute, ServerScript } from "./script.ts";
import { certificateOf, nowMs, pause, type ServerTls } from "./sockets.ts";

export interface ScriptedServer {
  readonly port: number;
  readonly calls: readonly SeenCall[];
  readonly records: ReadonlyMap<string, string>;
  stop(): Promise<void>;
}

/**
 * Starts it on a free port of loopback.
 *
 * @param replaceCertificate gives the client another certificate
 */
export async function startServer(
  script: ServerScript,
  issuer: ScriptedIssuer,
  tls: ServerTls,
  replaceCertificate: () => void,
): Promise<ScriptedServer> {
  const calls: SeenCall[] = [];
  const records = new Map<string, string>();
  const stopping = new AbortController();
  const sockets = new Map<number | undefined, Socket>();
  const log = script.receipts && new ScriptedLog(script.receipts.key);
  const usedProofs = new Set<string>();
  const state = { script, issuer, records, log, receipts: 0, usedProofs, lettingIn: 0, stopping: stopping.signal };
  const arrivals = new WeakMap<object, Arrival>();
  const rpc = connectNodeAdapter({
    routes: callRouter(state),
    contextValues: (request) => createContextValues().set(arrivalKey, arrivals.get(request)),
  });

  function onRequest(request: Http2ServerRequest, response: Http2ServerResponse): void {
    const seen = seenCall(request);
    calls.push(seen);
    const act: Act = script.acts?.[calls.length - 1] ?? { does: "answer" };
    const reset = () => sockets.get(request.socket.remotePort)?.resetAndDestroy();
    response.on("finish", () => {
      seen.answeredAtMs = nowMs();
    });
    if (act.does === "reset") return void reset();
    if (act.does === "page") {
      response.writeHead(act.status, { "content-type": "text/html" }).end("<html><body>Bad gateway</body></html>");
      return;
    }
    if (act.does === "answer" && act.afterwards !== undefined) response.on("close", after(act.afterwards, request));
    const arrival: Arrival = {
      seen,
      act,
      url: `https://${request.authority ?? request.headers.host}${request.url}`,
      method: request.method,
      reset,
      sayGoodbye: () => sayGoodbye(request),
      restart,
    };
    arrivals.set(request, arrival);
    const serve = seen.protocol === "json" ? serveJson(state, arrival, request, response) : rpc(request, response);
    Promise.resolve(serve).catch(() => response.stream?.destroy());
  }

  function after(event: "goaway" | "restart" | "new-certificate", request: Http2ServerRequest): () => void {
    if (event === "new-certificate") return replaceCertificate;
    return event === "goaway" ? () => sayGoodbye(request) : restart;
  }

  function restart(): void {
    server.close();
    for (const socket of sockets.values()) socket.destroy();
    void pause(200, stopping.signal).then(() => {
      if (!stopping.signal.aborted) server.listen(port, "127.0.0.1");
    });
  }

  const server = createSecureServer(
    { ...tls, requestCert: true, rejectUnauthorized: false, allowHTTP1: true },
    onRequest,
  );
  server.on("connection", (socket: Socket) => {
    sockets.set(socket.remotePort, socket);
    socket.on("close", () => sockets.delete(socket.remotePort));
    socket.on("error", () => {});
  });
  server.on("sessionError", () => {});
  server.on("tlsClientError", () => {});
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    calls,
    records,
    stop() {
      stopping.abort();
      const closed = new Promise<void>((done) => (server.listening ? server.close(() => done()) : done()));
      for (const socket of sockets.values()) socket.destroy();
      return closed;
    },
  };
}

function sayGoodbye({ httpVersionMajor, stream, socket }: Http2ServerRequest): void {
  if (httpVersionMajor === 2) stream.session?.close();
  else socket.destroy();
}

function seenCall(request: Http2ServerRequest): SeenCall {
  const { headers, url } = request;
  const header = (name: string) => {
    const value = headers[name];
    return Array.isArray(value) ? value.join(", ") : value;
  };
  const type = header("content-type") ?? "";
  const route = routeOf(url);
  const socket = (request.httpVersionMajor === 2 ? request.stream.session?.socket : request.socket) as TLSSocket;
  return {
    route,
    protocol: url.startsWith("/v1/") ? "json" : protocolOf(type),
    atMs: nowMs(),
    headers: Object.fromEntries(Object.keys(headers).map((name) => [name, header(name)])),
    token: header("authorization")?.split(" ")[1],
    idempotencyKey: header("idempotency-key"),
    certificate: certificateOf(socket),
    items: [],
  };
}

function protocolOf(type: string): SeenCall["protocol"] {
  if (type.startsWith("application/grpc-web")) return "grpc-web";
  return type.startsWith("application/grpc") ? "grpc" : "connect";
}

function routeOf(url: string): SeenRoute | undefined {
  const [path = ""] = url.split("?");
  const { streamEvents, streamRegistrations } = BulkStreamService.method;
  if (path === rpcPath(streamEvents)) return "stream/events";
  if (path === rpcPath(streamRegistrations)) return "stream/registrations";
  const isAt = (route: keyof typeof methods, jsonPath: string) => [jsonPath, rpcPath(methods[route])].includes(path);
  return (
    routes.find((route) => isAt(route, `/v1/sdk/${route}`)) ?? bulkRoutes.find((route) => isAt(route, `/v1/${route}`))
  );
}

function rpcPath({ parent, name }: DescMethod): string {
  return `/${parent.typeName}/${name}`;
}
