/** Node's HTTP/2 server, with what it leaves to us: who is asked first, and when a session is over. */
import http2 from "node:http2";
import type { Http1Handler } from "../../base/bare-answer.ts";
import { Connection } from "../../base/connection.ts";
import type { OpenAnswers } from "../../base/open-answers.ts";
import type { Admit } from "../admission/admit.ts";

/**
 * Takes an HTTP/2 stream as it is, or returns false: then it becomes a request and a response for the handler, which
 * costs more. `rawHeaders` alternates names and values.
 */
export type StreamHandler = (
  stream: http2.ServerHttp2Stream,
  headers: http2.IncomingHttpHeaders,
  rawHeaders: readonly string[],
) => boolean;

export interface Http2ServerOptions {
  readonly handler: Http1Handler;
  readonly onStream?: StreamHandler;
  readonly admit: Admit;
  readonly maxHeaderBytes: number;
  readonly idleTimeoutMs: number;
}

/** How long a session that is to close, and on which nothing is under way, may take to go, in milliseconds. */
const goodbyeMs = 2_000;

/** Of each session. */
const connections = new WeakMap<http2.ServerHttp2Session, Connection | undefined>();

/** Makes the server, which never listens itself. */
export function createHttp2(
  { handler, onStream, admit, maxHeaderBytes, idleTimeoutMs }: Http2ServerOptions,
  answers: OpenAnswers,
) {
  const server = http2.createServer({
    settings: { maxConcurrentStreams: 256, maxHeaderListSize: maxHeaderBytes },
    maxSessionInvalidFrames: 100,
    maxSessionRejectedStreams: 100,
  });
  server.on("request", handler as never);
  askFirst(server, admit, onStream);
  server.prependListener("stream", (stream) => {
    // A stream that was reset says so here, and closes.
    stream.on("error", () => {});
    answers.add(stream, () => stream.destroy());
    Connection.current()?.begin(stream);
  });
  server.on("checkContinue", handler as never);
  server.on("checkExpectation", handler as never);
  server.on("connect", (request: http2.Http2ServerRequest, response: http2.Http2ServerResponse) => {
    // A tunnel has an authority and no path (RFC 9113 §8.5); routers need one.
    request.url = "*";
    handler(request as never, response as never);
  });
  // A broken peer ends its own session and nothing else.
  server.on("sessionError", () => {});
  server.on("session", (session) => {
    connections.set(session, Connection.current());
    session.setTimeout(idleTimeoutMs, () => endSession(session));
  });
  return server;
}

/**
 * Ends a session in good order: what is under way goes on. Left to itself it would last for as long as its peer does not
 * read what it was told.
 */
export function endSession(session: http2.ServerHttp2Session): void {
  session.close();
  const connection = connections.get(session);
  const timer = setInterval(() => {
    if (connection?.isIdle !== false) session.destroy();
  }, goodbyeMs);
  session.once("close", () => clearInterval(timer));
}

/** Puts admission and handler before the listener that Node adds with the one for requests, and that makes these of streams. */
function askFirst(server: http2.Http2Server, admit: Admit, onStream: StreamHandler = () => false): void {
  const makeRequest = server.listeners("stream")[0] as (...stream: unknown[]) => void;
  server.removeAllListeners("stream");
  server.on("stream", (stream: http2.ServerHttp2Stream, headers, flags, rawHeaders) => {
    admit.stream(stream, headers, rawHeaders, () => {
      if (!onStream(stream, headers, rawHeaders)) makeRequest(stream, headers, flags, rawHeaders);
    });
  });
}
