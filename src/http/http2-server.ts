/** Node's HTTP/2 server, with admission before anything else and an end for every session. */
import http2 from "node:http2";
import type { Admit } from "./admit.ts";
import { Connection, type OpenAnswers } from "./connection.ts";
import { canonicalTarget, type InboundSource } from "./inbound-request.ts";
import type { Http1Handler } from "./raw-answer.ts";

/**
 * Takes an HTTP/2 stream as it is, or returns false: the stream then becomes a request and a response for the handler,
 * which costs more. `rawHeaders` alternates names and values.
 */
export type StreamHandler = (
  stream: http2.ServerHttp2Stream,
  headers: http2.IncomingHttpHeaders,
  rawHeaders: readonly string[],
) => boolean;

interface Http2ServerOptions {
  readonly handler: Http1Handler;
  readonly onStream?: StreamHandler;
  readonly admit: Pick<Admit, "stream">;
  readonly maxHeaderBytes: number;
  readonly addressOf?: AddressOf;
}

/** Returns the address of a call. */
export type AddressOf = (source: InboundSource) => string;

/** Creates the server, which never listens itself. */
export function createHttp2(
  { handler, onStream, admit, maxHeaderBytes, addressOf }: Http2ServerOptions,
  answers: OpenAnswers,
  sessions: Http2Sessions,
) {
  const server = http2.createServer({
    settings: { maxConcurrentStreams: 256, maxHeaderListSize: maxHeaderBytes },
    maxSessionInvalidFrames: 100,
    maxSessionRejectedStreams: 100,
  });
  server.on("request", handler as never);
  askFirst(server, admit, onStream);
  server.prependListener("stream", (stream, headers, _flags, rawHeaders) => {
    const { ":path": path } = headers;
    if (path !== undefined) headers[":path"] = canonicalTarget(path);
    // A reset stream emits an error here, and closes.
    stream.on("error", ignore);
    freeBeforeSession(stream);
    const address = addressOf && (() => addressOf({ rawHeaders, socket: stream.session?.socket }));
    answers.add(stream, () => stream.destroy(), address);
  });
  server.on("checkContinue", handler as never);
  server.on("checkExpectation", handler as never);
  server.on("connect", (request: http2.Http2ServerRequest, response: http2.Http2ServerResponse) => {
    // A tunnel has an authority and no path (RFC 9113 §8.5); routers need one.
    request.url = "*";
    handler(request as never, response as never);
  });
  server.on("session", (session) => {
    sessions.add(session);
    destroyInTime(session);
    freeAfterStreams(session);
  });
  return server;
}

function ignore(_value: unknown): void {}

/**
 * Ends a session only when Node can free it. If the socket is destroyed, its close ends the session, after all pending
 * writes. A session that ends earlier does not see them settle, and stays in memory with their streams. If the peer has
 * left with an error, the session ends after the read that says so. Node would end it during the read, and if the error
 * is CANCEL (RFC 9113 §7), hold back the resets of its streams and maybe ask a destroyed stream for trailers, which aborts
 * the process.
 */
function destroyInTime(session: http2.ServerHttp2Session): void {
  const destroy = session.destroy.bind(session);
  const destroyOpen: typeof destroy = (...cause) => {
    if (!session.destroyed && !session.socket.destroyed) destroy(...cause);
  };
  session.destroy = destroyOpen;
  session.on("goaway", (code) => {
    if (code === http2.constants.NGHTTP2_NO_ERROR) return;
    session.destroy = (...cause) => void setImmediate(destroyOpen, ...cause);
  });
}

const unfinished = new FinalizationRegistry<unknown>(() => {});

/**
 * Keeps the memory of a session until that of the stream is freed. Node leaves a stream that closes amid a write to the
 * garbage collector, with the trailers that have come so far. If the collector frees the session first, Node finds that
 * memory in use and aborts the process.
 */
function freeBeforeSession(stream: http2.Http2Stream): void {
  const memory = handleOf(stream);
  const ofSession = handleOf(stream.session);
  stream.once("close", () => {
    if (memory !== undefined && !stream.writableFinished) unfinished.register(memory, ofSession);
  });
}

/** Keeps the memory of a session while Node frees its last streams, in the turn after the close of the session. */
function freeAfterStreams(session: http2.ServerHttp2Session): void {
  const memory = handleOf(session);
  session.once("close", () => void setImmediate(ignore, memory));
}

let handleKey: symbol | undefined;

/** Returns Node's native object of a session or stream. */
function handleOf(owner: object | undefined): object | undefined {
  if (owner === undefined) return undefined;
  handleKey ??= Object.getOwnPropertySymbols(owner).find(({ description }) => description === "kHandle");
  return handleKey && (owner as Record<symbol, object | undefined>)[handleKey];
}

/** Interval between checks of the sessions, in milliseconds. */
const pollIntervalMs = 500;
/** How long a closing session without open streams may last, in milliseconds. */
const goodbyeMs = 2_000;

interface SessionLimits {
  /** How long an idle session is kept, in milliseconds. */
  readonly idleTimeoutMs: number;
  /** How long a peer with open streams may be silent before a PING, and again after it, in milliseconds. */
  readonly answerTimeoutMs: number;
}

/** State of a session, counted in checks instead of time: a process that was blocked has not listened either. */
interface Seen {
  readonly connection: Connection | undefined;
  bytesRead: number;
  /** Checks since the peer last sent anything. */
  silent: number;
  /** Checks since the session began to close without open streams. */
  leaving: number;
}

/**
 * The open sessions. Node itself may miss that a peer has left after announcing it (GOAWAY) and then keeps its socket
 * and streams; and Node's session timeout outlives the session, with all that it holds.
 */
export class Http2Sessions {
  readonly #idleLooks: number;
  readonly #silentLooks: number;
  readonly #open = new Map<http2.ServerHttp2Session, Seen>();
  readonly #pollTimer: NodeJS.Timeout;

  constructor({ idleTimeoutMs, answerTimeoutMs }: SessionLimits) {
    this.#idleLooks = Math.ceil(idleTimeoutMs / pollIntervalMs);
    this.#silentLooks = Math.ceil(answerTimeoutMs / pollIntervalMs);
    this.#pollTimer = setInterval(() => this.#poll(), pollIntervalMs);
    this.#pollTimer.unref();
  }

  add(session: http2.ServerHttp2Session): void {
    this.#open.set(session, { connection: Connection.current(), bytesRead: 0, silent: 0, leaving: 0 });
    session.once("close", () => this.#open.delete(session));
  }

  /** Closes all sessions gracefully: open streams finish. */
  drain(): void {
    for (const session of this.#open.keys()) session.close();
  }

  /** Closes the sessions of these connections gracefully. */
  leave(connections: ReadonlySet<Connection | undefined>): void {
    for (const [session, { connection }] of this.#open)
      if (connection !== undefined && connections.has(connection)) session.close();
  }

  /** Destroys all sessions, and stops the checks. */
  close(): void {
    for (const session of this.#open.keys()) session.destroy();
    clearInterval(this.#pollTimer);
  }

  #poll(): void {
    for (const [session, seen] of this.#open) {
      if (session.destroyed) {
        this.#checkLeaving(session, seen);
        continue;
      }
      const { bytesRead } = session.socket;
      seen.silent = bytesRead === seen.bytesRead ? seen.silent + 1 : 0;
      seen.bytesRead = bytesRead;
      if (seen.connection?.isIdle === false) this.#checkBusy(session, seen);
      else if (session.closed) this.#checkLeaving(session, seen);
      else if (seen.silent >= this.#idleLooks) session.close();
    }
  }

  /** A live peer answers a PING (RFC 9113 §6.7), however long its streams last. None is sent after a GOAWAY. */
  #checkBusy(session: http2.ServerHttp2Session, seen: Seen): void {
    seen.leaving = 0;
    if (seen.silent >= (session.closed ? 1 : 2) * this.#silentLooks) cut(session, seen);
    else if (seen.silent === this.#silentLooks) session.ping(() => {});
  }

  /** Without this, a closing session would last as long as its peer does not read. */
  #checkLeaving(session: http2.ServerHttp2Session, seen: Seen): void {
    seen.leaving += 1;
    if (seen.leaving * pollIntervalMs > goodbyeMs) cut(session, seen);
  }
}

/** Ends the socket as well: a destroyed session would first wait until its peer has read everything. */
function cut(session: http2.ServerHttp2Session, { connection }: Seen): void {
  session.destroy();
  connection?.end();
}

/** Runs admission and the stream handler before the listener of Node that turns streams into requests. */
function askFirst(
  server: http2.Http2Server,
  admit: Pick<Admit, "stream">,
  onStream: StreamHandler = () => false,
): void {
  const makeRequest = server.listeners("stream")[0] as (...stream: unknown[]) => void;
  server.removeAllListeners("stream");
  server.on("stream", (stream: http2.ServerHttp2Stream, headers, flags, rawHeaders) => {
    admit.stream(stream, headers, rawHeaders, () => {
      if (!onStream(stream, headers, rawHeaders)) makeRequest(stream, headers, flags, rawHeaders);
    });
  });
}
