/** HTTP/1.1 answers on connections without a Node response object (RFC 9112 §4). */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { invalidRequest, ServiceError } from "../base/errors.ts";

/** How long the caller may take to read an answer that ends its connection, in milliseconds. */
const bareAnswerTimeoutMs = 2_000;

/**
 * Writes a complete JSON answer and ends the connection. Only closes a connection that is not writable.
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
  // The caller may neither read nor close.
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

export type Http1Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** Refuses HTTP versions other than 1.0 and 1.1. */
export function invalidVersion(): ServiceError {
  return invalidRequest("", "http.version", "the version must be HTTP/1.0 or HTTP/1.1");
}

/** Writes a complete JSON answer to a request that is otherwise ignored, and ends the connection. */
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

/** Returns status line and refusal for the code of a `clientError` event. */
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

/** Whether the request has another expectation than `100-continue`; none is defined (RFC 9110 §10.1.1). */
export function expectsMore(expect: string | undefined): boolean {
  return expect !== undefined && expect.toLowerCase() !== "100-continue";
}

/** Refuses such a request, with status 417. */
export function expectationFailed(): ServiceError {
  return invalidRequest("", "http.expect", "the expectation must be 100-continue");
}
