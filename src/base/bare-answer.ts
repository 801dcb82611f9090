/** HTTP/1.1 answers on connections for which Node has no response object (RFC 9112 §4). */
import type { Duplex } from "node:stream";
import { invalidRequest, ServiceError } from "./errors.ts";

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
  const lines = Object.entries({
    Connection: "close",
    "Content-Type": "application/json",
    "Cache-Control": "no-store",
    ...headers,
    "Content-Length": Buffer.byteLength(json),
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status}\r\n${lines.join("")}\r\n${json}`);
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
