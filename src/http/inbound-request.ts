import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { invalidRequest, type ServiceError } from "../base/errors.ts";
import type { InboundRequest } from "../base/inbound-request.ts";

/** The parts of a request that name its sender and target. */
export interface InboundSource extends Pick<IncomingMessage, "method" | "url"> {
  readonly rawHeaders: readonly string[];
  readonly socket: Socket | undefined;
}

/** Returns the request as the network delivered it, for authentication. */
export function inboundOf(request: InboundSource): InboundRequest {
  return new Inbound(request);
}

/** Queued calls keep one each; a class adds no functions per instance. */
class Inbound implements InboundRequest {
  readonly remoteAddress: string;
  readonly encrypted: boolean;
  readonly method: string;
  readonly url: string;
  readonly #rawHeaders: readonly string[];
  readonly #socket: TLSSocket | undefined;

  constructor({ rawHeaders, socket, method = "", url = "" }: InboundSource) {
    this.#rawHeaders = rawHeaders;
    this.#socket = socket as TLSSocket | undefined;
    this.remoteAddress = socket?.remoteAddress ?? "";
    this.encrypted = this.#socket?.encrypted === true;
    this.method = method;
    this.url = url;
  }

  headerValues(name: string): string[] {
    return headerValues(this.#rawHeaders, name);
  }

  clientCertificate(): Uint8Array | undefined {
    return clientCertificate(this.#socket);
  }
}

/** Returns every value of a header in order. `rawHeaders` alternates names and values; names keep the sender's case. */
export function headerValues(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const candidate = rawHeaders[i] as string;
    if (candidate.length === name.length && candidate.toLowerCase() === name) values.push(rawHeaders[i + 1] as string);
  }
  return values;
}

/** Returns the certificate of this TLS session if it comes from a configured authority. */
function clientCertificate(socket: TLSSocket | undefined): Uint8Array | undefined {
  if (!socket?.encrypted || !socket.authorized) return undefined;
  return socket.getPeerX509Certificate()?.raw;
}

/** host [ ":" port ] (RFC 3986 §3.2), never empty and without user information. */
const authorityPattern = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::[0-9]{1,5})?$/;

/**
 * Refuses a request with ambiguous headers; undefined if there is no problem. Node uses the first of two content types,
 * and leaves transfer codings below `chunked` on the body (RFC 9112 §6.1).
 */
export function headerProblem(rawHeaders: readonly string[]): ServiceError | undefined {
  const authority = authorityProblem(rawHeaders);
  if (authority !== undefined) return authority;
  if (headerValues(rawHeaders, "content-type").length > 1)
    return invalidRequest("", "http.headers", "header content-type must come once");
  const coding = headerValues(rawHeaders, "transfer-encoding").join(", ");
  // If chunked is not last, the end of the body is undefined, and Node's parser refuses it.
  if (!/[,\s]chunked$/i.test(coding)) return undefined;
  return invalidRequest("", "http.headers", "header transfer-encoding must be chunked");
}

/** Refuses a request that does not name exactly one host (RFC 9112 §3.2, RFC 9113 §8.3.1). */
function authorityProblem(rawHeaders: readonly string[]): ServiceError | undefined {
  const hosts = headerValues(rawHeaders, "host");
  const [authority = ""] = headerValues(rawHeaders, ":authority").concat(hosts);
  const isOne = hosts.length === 0 || (hosts.length === 1 && hosts[0] === authority);
  if (isOne && authorityPattern.test(authority)) return undefined;
  return invalidRequest("", "http.host", "the request must name one valid host");
}
