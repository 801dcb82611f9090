/** What is left of a request body when its answer is out already, which a refusal always is. */
import http, { type IncomingMessage, type OutgoingHttpHeaders } from "node:http";
import { constants, Http2ServerResponse, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { declaredBytes, hasBody } from "../calls/exchange.ts";
import { protocolOf } from "../connect/rpc-refusal.ts";

/** How long a body that nobody reads may go on after its answer is out, in milliseconds. */
export const unreadBodyGraceMs = 2_000;
/** Longest declared body, in bytes, that is read to its end for the sake of the connection. */
const maxReadToEndBytes = 256 * 1024;

/**
 * Sees to it that the rest of the body is swallowed once the answer is out, so that the caller gets to read that, and
 * that a caller who never stops sending is cut off: its connection over HTTP/1.1, its stream over HTTP/2.
 */
export function boundUnreadBody(request: IncomingMessage, response: http.ServerResponse | Http2ServerResponse): void {
  // The version says what the caller wrote in its request line, which is no proof of the protocol.
  if (!(response instanceof Http2ServerResponse)) boundHttp1(request, response);
  else if (protocolOf(request.headers["content-type"]) === "grpc") resetWithAnswer(response.stream);
  else boundUnreadStream(response.stream, request);
}

/**
 * An answer of HTTP/1.1 that says `Connection: close` where the body will not be read to its end (RFC 9112 §9.3), or
 * may never come: after the answer no one knows where the next request begins.
 */
export class TruthfulResponse<Request extends IncomingMessage = IncomingMessage> extends http.ServerResponse<Request> {
  override writeHead(status: number, ...rest: readonly unknown[]): this {
    if (status >= 200 && leavesBody(this.req)) {
      this.shouldKeepAlive = false;
      linger(this.req.socket);
    }
    return super.writeHead(status, ...(rest as [OutgoingHttpHeaders]));
  }
}

function leavesBody(request: IncomingMessage): boolean {
  if (request.complete || !hasBody(request)) return false;
  const { expect } = request.headers;
  return expect !== undefined || (declaredBytes(request) ?? Number.POSITIVE_INFINITY) > maxReadToEndBytes;
}

/** Connections on which nothing is to be answered any more, while a body is swallowed. */
const lingering = new WeakSet<Socket>();

/** Whether the connection has said that it closes: what comes on it is not to be served (RFC 9112 §9.6). */
export function isLingering({ socket }: IncomingMessage): boolean {
  return lingering.has(socket);
}

/**
 * Half-closes only, where Node would close after the answer: to close over unread bytes resets the connection, and the
 * caller loses the answer with it (RFC 9112 §9.6).
 */
function linger(socket: Socket): void {
  lingering.add(socket);
  socket.destroySoon = () => socket.end();
}

function boundHttp1(request: IncomingMessage, response: http.ServerResponse): void {
  if (!hasBody(request)) return;
  response.on("finish", () => {
    const { socket } = request;
    const end = () => {
      if (lingering.has(socket)) socket.destroy();
    };
    if (request.readableEnded) return end();
    const timer = setTimeout(() => socket.destroy(), unreadBodyGraceMs);
    request.once("close", () => clearTimeout(timer));
    request.once("end", () => {
      clearTimeout(timer);
      end();
    });
    // Node does so by itself only where nothing was read.
    swallow(request);
  });
}

/** Reads to the end, whoever read before: what waits for `readable` keeps a stream from flowing. */
function swallow(body: Readable): void {
  body.removeAllListeners("readable");
  body.on("data", () => {});
  body.resume();
}

/**
 * The same for a stream of HTTP/2, whose body is read from `body`.
 *
 * Left to itself Node does one of two things. A stream that was never read it resets at once (RFC 9113 §8.1), and
 * callers that were about to send (curl before version 8) lose the answer with it. One that was read in part it
 * leaves half open for as long as the session lives, which then cannot end.
 */
export function boundUnreadStream(stream: ServerHttp2Stream, body: Readable = stream): void {
  if (stream.endAfterHeaders) return;
  // Node says this when all of the answer but its trailers is out.
  stream.on("wantTrailers", () => {
    if (stream.readableEnded) return;
    const timer = setTimeout(() => stream.destroy(), unreadBodyGraceMs);
    stream.once("close", () => clearTimeout(timer));
    swallow(body);
  });
}

/**
 * Ends a stream with its answer, where the caller may go on sending: no one listens any more, and the caller is to know
 * at once (RFC 9113 §8.1). Callers of gRPC take the stream for over with its trailers, and would soon have more open
 * streams than the session allows.
 *
 * Node tells of the end of an answer only when the stream is closed, but always asks for trailers before. To be called
 * after whoever answers that with trailers.
 */
export function resetWithAnswer(stream: ServerHttp2Stream): void {
  if (stream.endAfterHeaders) return;
  stream.once("wantTrailers", () => {
    if (stream.readableEnded) return;
    // Node keeps a stream that was read in part until the rest of what it holds is read too.
    swallow(stream);
    setImmediate(() => stream.close(constants.NGHTTP2_NO_ERROR));
  });
}
