import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { InboundRequest } from "../../auth/inbound-request.ts";
import { invalidRequest, type ServiceError } from "../../base/errors.ts";

/** The part of a request that says who sent it and what it asks. */
export interface InboundSource extends Pick<IncomingMessage, "method" | "url"> {
  readonly rawHeaders: readonly string[];
  readonly socket: Socket | undefined;
}

/** What the network delivered, as authentication sees it. */
export function inboundOf(request: InboundSource): InboundRequest {
  return new Inbound(request);
}

/** Calls that wait keep one each: a class has no functions of its own in each. */
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

/** Every value of a header in order. `rawHeaders` alternates names and values; names keep the sender's case. */
export function headerValues(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const candidate = rawHeaders[i] as string;
    if (candidate.length === name.length && candidate.toLowerCase() === name) values.push(rawHeaders[i + 1] as string);
  }
  return values;
}

/**
 * The certificate of this TLS session, where its chain leads to a configured authority. The handshake proved that
 * the client holds its key.
 */
function clientCertificate(socket: TLSSocket | undefined): Uint8Array | undefined {
  if (!socket?.encrypted || !socket.authorized) return undefined;
  return socket.getPeerX509Certificate()?.raw;
}

/** host [ ":" port ] (RFC 3986 §3.2), never empty and without user information. */
const authorityPattern = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::[0-9]{1,5})?$/;

/**
 * The refusal of a request whose headers leave open what it is; undefined where they do not. Node goes by the first of
 * two content types, and leaves transfer codings below `chunked` on the body (RFC 9112 §6.1).
 */
export function headerProblem(rawHeaders: readonly string[]): ServiceError | undefined {
  const authority = authorityProblem(rawHeaders);
  if (authority !== undefined) return authority;
  if (headerValues(rawHeaders, "content-type").length > 1)
    return invalidRequest("", "http.headers", "header content-type must come once");
  const coding = headerValues(rawHeaders, "transfer-encoding").join(", ");
  // Where chunked is not the last, nobody knows where the body ends, and Node's parser refuses it.
  if (!/[,\s]chunked$/i.test(coding)) return undefined;
  return invalidRequest("", "http.headers", "header transfer-encoding must be chunked");
}

/**
 * The refusal of a request that does not say exactly once for whom it is (RFC 9112 §3.2, RFC 9113 §8.3.1); undefined
 * where it does. Older versions may leave it out; here nothing is served without it.
 */
function authorityProblem(rawHeaders: readonly string[]): ServiceError | undefined {
  const hosts = headerValues(rawHeaders, "host");
  const [authority = ""] = headerValues(rawHeaders, ":authority").concat(hosts);
  const isOne = hosts.length === 0 || (hosts.length === 1 && hosts[0] === authority);
  if (isOne && authorityPattern.test(authority)) return undefined;
  return invalidRequest("", "http.host", "the request must name one valid host");
}
