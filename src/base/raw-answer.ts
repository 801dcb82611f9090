/** HTTP/1.1 answers on connections for which Node has no response object (RFC 9112 §4). */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { invalidRequest, ServiceError } from "./errors.ts";

/** How long an answer that ends its connection may take to be read, in milliseconds. */
const bareAnswerTimeoutMs = 2_000;

/**
 * Writes a whole JSON answer and ends the connection. Does nothing but close one that takes no answer any more.
 *
 * @param status status code and reason phrase, such as `400 Bad Request`
 * @param headers further ones; neither names nor values may hold a line break
 */
export function endWithAnswer(
  socket: Duplex,
  status: string,
  headers: Readonly<Record<string, string>>,
  json: string,
): void {
  if (!socket.writable) return void socket.destroy();
  // Whoever neither reads nor closes is not waited for.
  const timer = setTimeout(() => socket.destroy(), bareAnswerTimeoutMs);
  socket.once("close", () => clearTimeout(timer));
  const lines = Object.entries({
    Connection: "close",
    "Content-Type": "application/json",
    "Cache-Control": "no-store",
    ...headers,
    "Content-Length": Buffer.byteLength(json),
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status}\r\n${lines.join("")}\r\n${json}`);
}

/** Handles a request of HTTP/1.1. */
export type Http1Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** The refusal of another version than 1.0 and 1.1. */
export function invalidVersion(): ServiceError {
  return invalidRequest("", "http.version", "the version must be HTTP/1.0 or HTTP/1.1");
}

/** Writes a whole JSON answer to a request that nothing else is to be done with, and ends the connection. */
export function answerAlone(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  json: string,
): void {
  response.writeHead(status, {
    connection: "close",
    "content-type": "application/json",
    "cache-control": "no-store",
    ...headers,
    "content-length": Buffer.byteLength(json),
  });
  response.end(json);
}

/** Status line and refusal for the error of a `clientError` event, by its code. */
export function clientRefusal(code: string | undefined): readonly [status: string, refusal: ServiceError] {
  switch (code) {
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return ["408 Request Timeout", new ServiceError("request_timeout", "request did not arrive in time")];
    case "HPE_HEADER_OVERFLOW":
      return [
        "431 Request Header Fields Too Large",
        invalidRequest("", "http.headers", "request headers are too large"),
      ];
    default:
      return ["400 Bad Request", invalidRequest("", "http", "request is not valid HTTP/1.1")];
  }
}

/** Whether something else than `100-continue` is expected: nobody defined anything else (RFC 9110 §10.1.1). */
export function expectsMore(expect: string | undefined): boolean {
  return expect !== undefined && expect.toLowerCase() !== "100-continue";
}

/** The refusal of such a request; its status is 417. */
export function expectationFailed(): ServiceError {
  return invalidRequest("", "http.expect", "the expectation must be 100-continue");
}
