/** What is left of a request body when its answer is out already, which a refusal always is. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Http2ServerResponse, type ServerHttp2Stream } from "node:http2";
import type { Readable } from "node:stream";

/** How long a body that nobody reads may go on after its answer is out, in milliseconds. */
const unreadBodyGraceMs = 2_000;

/**
 * Sees to it that the rest of the body is swallowed once the answer is out, so that the caller gets to read that, and
 * that a caller who never stops sending is cut off: its connection over HTTP/1.1, its stream over HTTP/2.
 */
export function boundUnreadBody(request: IncomingMessage, response: ServerResponse | Http2ServerResponse): void {
  // The version says what the caller wrote in its request line, which is no proof of the protocol.
  if (response instanceof Http2ServerResponse) boundUnreadStream(response.stream, request);
  else boundHttp1(request, response);
}

/** Node swallows what is left by itself. */
function boundHttp1(request: IncomingMessage, response: ServerResponse): void {
  response.on("finish", () => {
    if (request.complete) return;
    const timer = setTimeout(() => request.socket.destroy(), unreadBodyGraceMs);
    request.once("close", () => clearTimeout(timer));
    request.once("end", () => clearTimeout(timer));
  });
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
    body.resume();
  });
}
