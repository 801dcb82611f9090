/**
 * One port for HTTP/1.1 and HTTP/2. With TLS, ALPN decides the protocol; without, the first bytes do, since an HTTP/2
 * client with prior knowledge sends a fixed preface (RFC 9113 §3.4). Connections are passed to Node's own servers,
 * which never listen themselves.
 */
import http from "node:http";
import type http2 from "node:http2";
import type { AddressInfo } from "node:net";
import net from "node:net";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import tls from "node:tls";
import type { Admit } from "./admit.ts";
import { type ConnectionOptions, confineConnections, OpenAnswers } from "./connection.ts";
import { Http1Exchanges } from "./http1-exchanges.ts";
import { type AddressOf, createHttp2, Http2Sessions, type StreamHandler } from "./http2-server.ts";
import type { Http1Handler, RawRefusals } from "./raw-answer.ts";
import { ReplaceableTls, serverTlsOptions, type TlsFiles } from "./replaceable-tls.ts";
import { BoundedResponse, isLingering } from "./unread-body.ts";

const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

export interface ListenerOptions extends ConnectionOptions, RawRefusals {
  /** Handles requests of both protocols. */
  readonly handler: Http1Handler;
  /** Called first for HTTP/2 streams. Default: takes none. */
  readonly onStream?: StreamHandler;
  /** Queues requests and streams. */
  readonly admit: Pick<Admit, "request" | "stream">;
  /** Default: false. */
  readonly isHttp1Only?: boolean;
  /** Returns the address that distinguishes slow readers. Default: all count as one. */
  readonly addressOf?: AddressOf;
  /** TLS settings; plaintext if absent. */
  readonly tls?: TlsFiles;
  /** Time until the request headers must be complete, in milliseconds. */
  readonly headersTimeoutMs: number;
  /** Time until a whole request must have arrived, in milliseconds. */
  readonly requestTimeoutMs: number;
  /** How long an idle connection is kept, in milliseconds. */
  readonly idleTimeoutMs: number;
  /** Time until the caller must have read the answer, in milliseconds. */
  readonly answerTimeoutMs: number;
  readonly maxHeaderBytes: number;
}

export interface Listener {
  /** Resolves with the bound address. Rejects if the address cannot be bound. */
  listen(host: string, port: number): Promise<AddressInfo>;
  /**
   * Stops accepting, lets open requests finish, closes idle connections, and resolves when all are closed. Destroys
   * what is open after `graceMs`. Resolves with true if nothing had to be destroyed.
   */
  close(graceMs: number): Promise<boolean>;
  /** Replaces the TLS files, as `ReplaceableTls` does. Does nothing without TLS. */
  replaceTls(files: TlsFiles): void;
}

/** Creates the listener. Nothing is bound until `listen`. */
export function createListener(options: ListenerOptions): Listener {
  const answers = new OpenAnswers(options);
  const exchanges = new Http1Exchanges(answers, options.onVersion, options.addressOf);
  const h1 = createHttp1(options, exchanges);
  const sessions = new Http2Sessions(options);
  const h2 = createHttp2(options, answers, sessions);
  const sockets = new Set<net.Socket>();
  const unused = unusedConnections(h1);
  const { tls: files } = options;
  const secure = files && tlsFront(h1, h2, files, options);
  const front = secure ?? plaintextFront(h1, h2, options);
  const replaceable =
    secure &&
    new ReplaceableTls(secure, {
      files,
      handshakeTimeoutMs: options.headersTimeoutMs,
      leave(disowned) {
        for (const { socket } of disowned) exchanges.leave(socket);
        sessions.leave(new Set(disowned.map(({ connection }) => connection)));
      },
    });
  confineConnections(front, options);
  front.on("connection", (socket: net.Socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  return {
    listen: (host, port) =>
      new Promise((resolve, reject) => {
        front.once("error", reject);
        front.listen({ port, host }, () => {
          front.off("error", reject);
          resolve(front.address() as AddressInfo);
        });
      }),
    replaceTls: (files) => replaceable?.replace(files),
    async close(graceMs) {
      const closed = new Promise<void>((resolve) => front.close(() => resolve()));
      exchanges.drain();
      sessions.drain();
      let sweeps = 0;
      const lastSweep = Math.min(lastCallSweeps, graceMs / sweepMs);
      const closeIdle = () => {
        if (sweeps++ >= lastSweep) h1.closeIdleConnections();
        for (const socket of unused) socket.destroy();
        // A connection that has sent nothing belongs to neither protocol yet.
        for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
      };
      // Immediates run after the poll phase: requests that have arrived are read first.
      const look = () => void setImmediate(closeIdle);
      setImmediate(look);
      // A connection becomes idle when its answer is sent: check until all are closed or the time is up.
      const sweep = setInterval(look, sweepMs);
      let clean = true;
      const cut = setTimeout(() => {
        clean = false;
        sessions.close();
        for (const socket of sockets) socket.destroy();
      }, graceMs);
      await closed;
      clearTimeout(cut);
      clearInterval(sweep);
      sessions.close();
      h1.close();
      h2.close();
      answers.close();
      return clean;
    },
  };
}

/** Interval between checks for idle connections while the listener drains, in milliseconds. */
const sweepMs = 20;
/**
 * How long kept-alive connections stay usable during a drain, in checks: a client that is about to call again reads
 * from the answer that the connection closes, instead of finding it closed. Counted in checks, because a blocked
 * process has read nothing meanwhile.
 */
const lastCallSweeps = 13;

/** HTTP/1.1 connections without a first request. Node counts them as active. */
function unusedConnections(h1: http.Server): ReadonlySet<Duplex> {
  const unused = new Set<Duplex>();
  h1.on("connection", (socket) => {
    unused.add(socket);
    socket.on("close", () => unused.delete(socket));
  });
  for (const event of ["request", "checkContinue", "checkExpectation", "connect"] as const)
    h1.prependListener(event, ({ socket }) => unused.delete(socket));
  return unused;
}

function createHttp1(options: ListenerOptions, exchanges: Http1Exchanges) {
  const { handler, admit } = options;
  const server = http.createServer({
    headersTimeout: options.headersTimeoutMs,
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: options.idleTimeoutMs,
    maxHeaderSize: options.maxHeaderBytes,
    connectionsCheckingInterval: 1_000,
    // A request without a host gets our own refusal.
    requireHostHeader: false,
    joinDuplicateHeaders: false,
    ServerResponse: BoundedResponse,
  });
  const guarded = exchanges.guard((request, response) => {
    if (!isLingering(request)) admit.request(request, response, () => handler(request, response));
  });
  server.on("request", guarded);
  // No `100 Continue` before the gate: a refused caller sends no body.
  server.on("checkContinue", guarded);
  // By default Node answers an unknown expectation itself, and ends a tunnel without an answer.
  server.on("checkExpectation", guarded);
  server.on("connect", (_request, socket) => exchanges.afterAnswers(socket, () => options.onTunnel(socket)));
  server.on("clientError", (error, socket) =>
    exchanges.afterAnswers(socket, () => options.onClientError(error, socket)),
  );
  // Node arms the header and request timeouts on this event, which a server that never listens does not emit.
  server.emit("listening");
  return server;
}

function plaintextFront(
  h1: http.Server,
  h2: http2.Http2Server,
  { headersTimeoutMs, isHttp1Only = false }: ListenerOptions,
): net.Server {
  return net.createServer({ noDelay: true }, (socket) => {
    const timer = setTimeout(() => socket.destroy(), headersTimeoutMs);
    socket.on("error", () => socket.destroy());
    let head: Buffer = Buffer.alloc(0);
    const onReadable = () => {
      const chunk = socket.read() as Buffer | null;
      if (chunk === null) return;
      head = Buffer.concat([head, chunk]);
      const length = Math.min(head.length, preface.length);
      const isHttp2 = !isHttp1Only && preface.subarray(0, length).equals(head.subarray(0, length));
      // `PRI` alone could become either: wait for the rest of the preface.
      if (isHttp2 && length < preface.length) return;
      clearTimeout(timer);
      socket.off("readable", onReadable);
      socket.unshift(head);
      (isHttp2 ? h2 : h1).emit("connection", socket);
    };
    socket.on("readable", onReadable);
    socket.on("close", () => clearTimeout(timer));
  });
}

function tlsFront(
  h1: http.Server,
  h2: http2.Http2Server,
  files: TlsFiles,
  { headersTimeoutMs, isHttp1Only = false }: ListenerOptions,
): tls.Server {
  const server = tls.createServer({
    ...serverTlsOptions(files),
    ALPNProtocols: isHttp1Only ? ["http/1.1"] : ["h2", "http/1.1"],
    handshakeTimeout: headersTimeoutMs,
    noDelay: true,
  });
  server.on("secureConnection", (socket: TLSSocket) => {
    socket.on("error", () => socket.destroy());
    (socket.alpnProtocol === "h2" ? h2 : h1).emit("connection", socket);
  });
  server.on("tlsClientError", (_error, socket) => socket.destroy());
  return server;
}

/** For fastify's `schemaController`: no route has a JSON schema; compilers would add 4 MiB and 40 ms to a start. */
export const noSchemas = { compilersFactory: { buildValidator: refuse, buildSerializer: refuse } };

function refuse(): never {
  throw new Error("routes of this service have no schema");
}
