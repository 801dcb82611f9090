/** Handles the rest of a request body after its answer, such as a refusal, has been sent. */
import http, { type IncomingMessage, type OutgoingHttpHeaders } from "node:http";
import { constants, Http2ServerResponse, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { declaredBytes, hasBody } from "./body.ts";

/** How long an unread body may continue after the answer, in milliseconds. */
export const unreadBodyGraceMs = 2_000;
/** Longest declared body, in bytes, that is read to its end to keep the connection. */
const maxReadToEndBytes = 256 * 1024;

/**
 * Discards the rest of the body after the answer, so that the caller can read the answer. A caller that keeps sending
 * is cut off: its stream over HTTP/2, its connection over HTTP/1.1, where `BoundedResponse` does all of it.
 *
 * @param resets whether an HTTP/2 stream ends with its answer, as gRPC clients expect
 */
export function boundUnreadBody(
  request: IncomingMessage,
  response: http.ServerResponse | Http2ServerResponse,
  resets: boolean,
): void {
  // The version in the request line is no proof of the protocol.
  if (!(response instanceof Http2ServerResponse)) return;
  if (resets) resetWithAnswer(response.stream);
  else boundUnreadStream(response.stream, request);
}

/**
 * An HTTP/1.1 answer after which the rest of the body is discarded for a limited time. It says `Connection: close` if
 * the body will not be read to its end (RFC 9112 §9.3) or may never arrive: the start of the next request is then
 * unknown.
 */
export class BoundedResponse<Request extends IncomingMessage = IncomingMessage> extends http.ServerResponse<Request> {
  override writeHead(status: number, ...rest: readonly unknown[]): this {
    if (status >= 200 && hasBody(this.req)) {
      if (leavesBody(this.req)) {
        this.shouldKeepAlive = false;
        linger(this.req.socket);
      }
      boundHttp1(this.req, this);
    }
    return super.writeHead(status, ...(rest as [OutgoingHttpHeaders]));
  }
}

function leavesBody(request: IncomingMessage): boolean {
  if (request.complete) return false;
  const { expect } = request.headers;
  return expect !== undefined || (declaredBytes(request) ?? Number.POSITIVE_INFINITY) > maxReadToEndBytes;
}

/** Connections that only discard a body and answer nothing more. */
const lingering = new WeakSet<Socket>();

/** Whether the connection has announced that it closes: later requests on it are not served (RFC 9112 §9.6). */
export function isLingering({ socket }: IncomingMessage): boolean {
  return lingering.has(socket);
}

/**
 * Half-closes the connection; Node would close it after the answer. Closing with unread bytes resets the connection,
 * and the caller may lose the answer (RFC 9112 §9.6).
 */
function linger(socket: Socket): void {
  lingering.add(socket);
  socket.destroySoon = () => socket.end();
}

function boundHttp1(request: IncomingMessage, response: http.ServerResponse): void {
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
    // Node does this only if nothing was read.
    swallow(request);
  });
}

/** Removes earlier `readable` listeners, which would keep the stream from flowing. */
function swallow(body: Readable): void {
  body.removeAllListeners("readable");
  body.on("data", () => {});
  body.resume();
}

/**
 * The same for an HTTP/2 stream, whose body is read from `body`.
 *
 * By default Node resets a stream that was never read (RFC 9113 §8.1), so that callers about to send (curl before
 * version 8) lose the answer. It leaves a stream that was read in part half open for the life of the session, which
 * then cannot end.
 */
function boundUnreadStream(stream: ServerHttp2Stream, body: Readable = stream): void {
  if (stream.endAfterHeaders) return;
  // Node emits this when all of the answer except its trailers has been written.
  stream.on("wantTrailers", () => {
    if (stream.readableEnded) return;
    const timer = setTimeout(() => stream.destroy(), unreadBodyGraceMs);
    stream.once("close", () => clearTimeout(timer));
    swallow(body);
  });
}

/**
 * Ends a stream with its answer although the caller may still send, so that the caller learns at once that sending is
 * useless (RFC 9113 §8.1). gRPC clients consider the stream finished after its trailers, and would soon have more open
 * streams than the session allows.
 *
 * Node reports the end of an answer only when the stream closes, but always asks for trailers before. Call this after
 * the listener that sends trailers.
 */
export function resetWithAnswer(stream: ServerHttp2Stream): void {
  if (stream.endAfterHeaders) return;
  stream.once("wantTrailers", () => {
    if (stream.readableEnded) return;
    // Node keeps a partly read stream until the rest of its buffer is read.
    swallow(stream);
    setImmediate(() => stream.close(constants.NGHTTP2_NO_ERROR));
  });
}
