/** What is left of a request body when its answer is out already, which a refusal always is. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerResponse } from "node:http2";

/** How long a body that nobody reads may go on after its answer is out, in milliseconds. */
const unreadBodyGraceMs = 2_000;

/**
 * Sees to it that the rest of the body is swallowed once the answer is out, so that the caller gets to read that, and
 * that a caller who never stops sending is cut off: its connection over HTTP/1.1, its stream over HTTP/2.
 */
export function boundUnreadBody(request: IncomingMessage, response: ServerResponse): void {
  if (request.httpVersionMajor >= 2) boundHttp2(request, response as unknown as Http2ServerResponse);
  else boundHttp1(request, response);
}

/** Node swallows what is left by itself. */
function boundHttp1(request: IncomingMessage, response: ServerResponse): void {
  response.once("finish", () => {
    if (request.complete) return;
    const timer = setTimeout(() => request.socket.destroy(), unreadBodyGraceMs);
    request.once("close", () => clearTimeout(timer));
    request.once("end", () => clearTimeout(timer));
  });
}

/**
 * Left to itself Node does one of two things. A stream that was never read it resets at once (RFC 9113 §8.1), and
 * callers that were about to send (curl before version 8) lose the answer with it. One that was read in part it
 * leaves half open for as long as the session lives, which then cannot end.
 */
function boundHttp2(request: IncomingMessage, { stream }: Http2ServerResponse): void {
  if (stream.endAfterHeaders) return;
  // Node says this when all of the answer but its trailers is out.
  stream.once("wantTrailers", () => {
    if (stream.readableEnded) return;
    const timer = setTimeout(() => stream.destroy(), unreadBodyGraceMs);
    stream.once("close", () => clearTimeout(timer));
    request.resume();
  });
}
