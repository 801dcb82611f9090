/** The server below the operator listener: plaintext or TLS, held to the same rules as the service's own. */
import http from "node:http";
import https from "node:https";
import type { Duplex } from "node:stream";
import { confineConnections, type OnDefect } from "../base/connection.ts";
import { Http1Exchanges, type RefuseVersion } from "../base/http1-exchanges.ts";
import { OpenAnswers } from "../base/open-answers.ts";
import type { Http1Handler } from "../base/raw-answer.ts";

/** Certificate chain and key in PEM, and the authorities of client certificates, which bound tokens are shown with. */
export interface OpsTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string;
}

export interface OpsServerOptions {
  /** Plaintext where absent. */
  readonly tls?: OpsTls;
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

/** Makes it. Nothing is bound until it listens. */
export function createOpsServer(handler: Http1Handler, options: OpsServerOptions): http.Server {
  const answers = new OpenAnswers({ answerTimeoutMs });
  const guarded = new Http1Exchanges(answers, options.onVersion).guard(handler);
  const server = createFor(options.tls, {
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
  return server;
}

function createFor(tls: OpsTls | undefined, options: http.ServerOptions): http.Server {
  if (tls === undefined) return http.createServer(options);
  const { cert, key, clientCa } = tls;
  // Without a certificate, or with one of another authority, whoever asks still gets an answer: its token decides.
  const client = clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: false };
  return https.createServer({ ...options, cert, key, minVersion: "TLSv1.2", ...client });
}
