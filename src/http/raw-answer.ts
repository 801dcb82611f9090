/** HTTP/1.1 answers on connections without a Node response object (RFC 9112 §4). */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Clock } from "../base/clock.ts";
import { invalidRequest, ServiceError } from "../base/errors.ts";
import { newRequestId, type RandomFill, type RequestId } from "../base/ids.ts";

/** How long the caller may take to read an answer that ends its connection, in milliseconds. */
const bareAnswerTimeoutMs = 2_000;

interface RawRefusalsOptions {
  readonly clock: Clock;
  readonly random: RandomFill;
  /** Returns the body of a refusal. */
  readonly envelopeOf: (requestId: RequestId, refusal: ServiceError) => object;
  /** Methods that the listener serves. */
  readonly allow: string;
  /** Refusal of a request for a tunnel. */
  readonly noTunnel: ServiceError;
}

/** Answers to what never becomes a request. */
export interface RawRefusals {
  /** Answers invalid HTTP/1.1 if the connection is still writable, and closes it. */
  readonly onClientError: (error: NodeJS.ErrnoException, socket: Duplex) => void;
  /** Answers a request of an HTTP version other than 1.0 and 1.1. */
  readonly onVersion: (response: ServerResponse) => void;
  /** HTTP/1.1 can answer a request for a tunnel only on the connection itself. */
  readonly onTunnel: (socket: Duplex) => void;
}

export function rawRefusals({ clock, random, envelopeOf, allow, noTunnel }: RawRefusalsOptions): RawRefusals {
  const write = (refusal: ServiceError): readonly [RequestId, string] => {
    const requestId = newRequestId(clock, random);
    return [requestId, JSON.stringify(envelopeOf(requestId, refusal))];
  };
  /**
   * Writes a complete answer and ends the connection. Only closes a connection that is not writable.
   *
   * @param status status code and reason phrase
   * @param headers further ones; neither names nor values may hold a line break
   */
  const end = (socket: Duplex, status: string, refusal: ServiceError, headers: Readonly<Record<string, string>>) => {
    if (!socket.writable) return void socket.destroy();
    // The caller may neither read nor close.
    const timer = setTimeout(() => socket.destroy(), bareAnswerTimeoutMs);
    socket.once("close", () => clearTimeout(timer));
    const [requestId, json] = write(refusal);
    const lines = Object.entries({
      Connection: "close",
      "Content-Type": "application/json",
      "Cache-Control": "no-store",
      "X-Request-Id": requestId,
      ...headers,
      "Content-Length": Buffer.byteLength(json),
    }).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.end(`HTTP/1.1 ${status}\r\n${lines.join("")}\r\n${json}`);
  };
  return {
    onClientError(error, socket) {
      if (error.code === "ECONNRESET") socket.destroy();
      else end(socket, ...clientRefusal(error.code), {});
    },
    onVersion(response) {
      const version = invalidRequest("", "http.version", "the version must be HTTP/1.0 or HTTP/1.1");
      const [requestId, json] = write(version);
      response.writeHead(400, {
        connection: "close",
        "content-type": "application/json",
        "cache-control": "no-store",
        "x-request-id": requestId,
        "content-length": Buffer.byteLength(json),
      });
      response.end(json);
    },
    onTunnel(socket) {
      socket.on("error", () => socket.destroy());
      end(socket, "405 Method Not Allowed", noTunnel, { Allow: allow });
    },
  };
}

export type Http1Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** Returns status line and refusal for the code of a `clientError` event. */
function clientRefusal(code: string | undefined): readonly [status: string, refusal: ServiceError] {
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

/** Refuses another expectation than `100-continue`, with status 417; none is defined (RFC 9110 §10.1.1). */
export function expectationProblem(expect: string | undefined): ServiceError | undefined {
  if (expect === undefined || expect.toLowerCase() === "100-continue") return undefined;
  return invalidRequest("", "http.expect", "the expectation must be 100-continue");
}
