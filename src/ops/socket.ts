/** The server of the operator listener: plaintext or TLS, with the same rules as the service's. */
import http from "node:http";
import https from "node:https";
import { confineConnections, type OnDefect, OpenAnswers } from "../http/connection.ts";
import { Http1Exchanges } from "../http/http1-exchanges.ts";
import type { Http1Handler, RawRefusals } from "../http/raw-answer.ts";
import { ReplaceableTls, serverTlsOptions, type TlsFiles } from "../http/replaceable-tls.ts";

export interface OpsServerOptions extends Pick<RawRefusals, "onVersion" | "onTunnel"> {
  /** Plaintext if absent. The authorities are those of client certificates, for bound tokens. */
  readonly tls?: TlsFiles;
  /** Called for unexpected errors that ended a connection. */
  readonly onDefect: OnDefect;
}

/** Time until a whole request must have arrived, in milliseconds. */
const requestTimeoutMs = 10_000;
/** How long an idle connection is kept, in milliseconds: longer than the intervals of scrapers and probes. */
const keepAliveTimeoutMs = 72_000;

/** Time until the caller must have read the answer, in milliseconds. */
const answerTimeoutMs = 30_000;
const maxConnections = 1_024;

export interface OpsServer {
  readonly server: http.Server;
  /** Replaces the TLS files, as `ReplaceableTls` does. Does nothing without TLS. */
  replaceTls(files: TlsFiles): void;
}

/** Creates the server. Nothing is bound until it listens. */
export function createOpsServer(handler: Http1Handler, options: OpsServerOptions): OpsServer {
  const answers = new OpenAnswers({ answerTimeoutMs });
  const exchanges = new Http1Exchanges(answers, options.onVersion);
  const guarded = exchanges.guard(handler);
  const { server, tls } = createFor(options.tls, exchanges, {
    // A request without a host gets our own refusal.
    requireHostHeader: false,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
  });
  server.on("request", guarded);
  // By default Node answers an unknown expectation itself, and ends a tunnel without an answer.
  server.on("checkExpectation", guarded);
  server.on("connect", (_request, socket) => options.onTunnel(socket));
  server.once("close", () => answers.close());
  // Scrapers and tools of the deployment may all come through one proxy.
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
