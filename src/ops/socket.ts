/** The server below the operator listener: plaintext or TLS, held to the same rules as the service's own. */
import http from "node:http";
import https from "node:https";
import type { Duplex } from "node:stream";
import { confineConnections, type OnDefect } from "../base/connection.ts";
import { Http1Exchanges, type RefuseVersion } from "../base/http1-exchanges.ts";
import { OpenAnswers } from "../base/open-answers.ts";
import type { Http1Handler } from "../base/raw-answer.ts";
import { ReplaceableTls, serverTlsOptions, type TlsFiles } from "../base/replaceable-tls.ts";

export interface OpsServerOptions {
  /** Plaintext where absent. The authorities are those of client certificates, which bound tokens are shown with. */
  readonly tls?: TlsFiles;
  /** Told of what should never be thrown, and has ended a connection. */
  readonly onDefect: OnDefect;
  /** Answers a request of an HTTP/1 version that is not spoken. */
  readonly onVersion: RefuseVersion;
  /** Answers a connection that asks for a tunnel. */
  readonly onTunnel: (socket: Duplex) => void;
}

/** Longest time until a whole request has arrived, in milliseconds. */
const requestTimeoutMs = 10_000;
/** How long a connection without requests is kept, in milliseconds: longer than scrapers and probes pause. */
const keepAliveTimeoutMs = 72_000;

/** Longest time that an answer waits until all of it is taken, in milliseconds. */
const answerTimeoutMs = 30_000;
const maxConnections = 1_024;

export interface OpsServer {
  readonly server: http.Server;
  /** Takes these in place of what it has, as `ReplaceableTls` does. Plaintext has nothing to replace. */
  replaceTls(files: TlsFiles): void;
}

/** Makes it. Nothing is bound until it listens. */
export function createOpsServer(handler: Http1Handler, options: OpsServerOptions): OpsServer {
  const answers = new OpenAnswers({ answerTimeoutMs });
  const exchanges = new Http1Exchanges(answers, options.onVersion);
  const guarded = exchanges.guard(handler);
  const { server, tls } = createFor(options.tls, exchanges, {
    // A request without one gets an answer in our own words.
    requireHostHeader: false,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
  });
  server.on("request", guarded);
  // Left to itself Node answers an expectation that it does not know, and ends a tunnel without any answer.
  server.on("checkExpectation", guarded);
  server.on("connect", (_request, socket) => options.onTunnel(socket));
  server.once("close", () => answers.close());
  // Scrapers and tools of the deployment's own, which may all come through one proxy.
  confineConnections(server, { onDefect: options.onDefect, maxConnections, isShared: () => true });
  return { server, replaceTls: (files) => tls?.replace(files) };
}

function createFor(
  files: TlsFiles | undefined,
  exchanges: Http1Exchanges,
  options: http.ServerOptions,
): { readonly server: http.Server; readonly tls?: ReplaceableTls } {
  if (files === undefined) return { server: http.createServer(options) };
  const handshakeTimeout = requestTimeoutMs;
  const server = https.createServer({ ...options, ...serverTlsOptions(files), handshakeTimeout });
  const tls = new ReplaceableTls(server, {
    files,
    handshakeTimeoutMs: handshakeTimeout,
    leave(disowned) {
      for (const { socket } of disowned) exchanges.leave(socket);
    },
  });
  return { server, tls };
}
