import type { X509Certificate } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { type Clock, systemClock } from "../base/clock.ts";
import { invalidRequest, type ServiceError } from "../base/errors.ts";
import { newRequestId, parseRequestId, type RandomFill, type RequestId } from "../base/ids.ts";
import type { InboundRequest } from "../base/inbound-request.ts";
import { rememberedBy } from "../base/remembered.ts";

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

  /**
   * Undefined too if it does not come from a configured authority, or has expired: connections and resumed sessions may
   * outlive it (RFC 8446 §4.6.1).
   */
  clientCertificate(): Uint8Array | undefined {
    const socket = this.#socket;
    const certificate = socket?.encrypted && socket.authorized ? certificateOf(socket) : undefined;
    return certificate !== undefined && certificate.validToDate.getTime() > systemClock.now()
      ? certificate.raw
      : undefined;
  }
}

/** Returns every value of a header in order. `rawHeaders` alternates names and values; names keep the sender's case. */
function headerValues(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const candidate = rawHeaders[i] as string;
    if (candidate.length === name.length && candidate.toLowerCase() === name) values.push(rawHeaders[i + 1] as string);
  }
  return values;
}

/** Returns the caller's request id if there is exactly one valid header, else a new one. */
export function requestIdOf(inbound: InboundRequest, clock: Clock, random: RandomFill): RequestId {
  const [value, ...others] = inbound.headerValues("x-request-id");
  const given = value === undefined || others.length > 0 ? undefined : parseRequestId(value);
  return given ?? newRequestId(clock, random);
}

/** Certificates of open connections, which keep theirs; each is read and parsed once. */
const certificateOf = rememberedBy((socket: TLSSocket): X509Certificate | undefined => socket.getPeerX509Certificate());

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

// One spelling of request targets, so that admission, routes, log and refusals agree.

const absoluteForm = /^https?:\/\/([^/?#]*)/i;
const unreserved = /[A-Za-z0-9._~-]/;

/**
 * Returns the target with the path in normal form (RFC 3986 §6.2.2): unneeded encoding is removed, and a `#`, which has
 * no meaning in a target, is encoded. Encoding that remains matches no route. Nor does a target that does not begin
 * with a slash, such as `*`: it gets one, because the router takes its first character for one.
 */
export function canonicalTarget(target: string): string {
  if (/^\/[^%#]*$/.test(target)) return target;
  const [, path = "", query = ""] = /^([^?]*)(.*)$/s.exec(target.startsWith("/") ? target : `/${target}`) ?? [];
  const normal = path.replaceAll("#", "%23").replaceAll(/%([0-9a-f]{2})/gi, (encoded, digits: string) => {
    const character = String.fromCharCode(Number.parseInt(digits, 16));
    return unreserved.test(character) ? character : encoded;
  });
  return normal + query;
}

/**
 * Makes the target of an HTTP/1.1 request canonical. The authority of an absolute form (RFC 9112 §3.2.2) replaces
 * `Host`.
 */
export function canonicalize(request: IncomingMessage): void {
  const { url = "", rawHeaders } = request;
  const [base, authority] = absoluteForm.exec(url) ?? [];
  if (base === undefined || authority === undefined) {
    request.url = canonicalTarget(url);
    return;
  }
  const rest = url.slice(base.length);
  request.url = canonicalTarget(rest);
  request.headers.host = authority;
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]?.toLowerCase() === "host") rawHeaders[i + 1] = authority;
}

/** Returns the target without its query. */
export function pathOf(url: string): string {
  const query = url.indexOf("?");
  return query === -1 ? url : url.slice(0, query);
}
