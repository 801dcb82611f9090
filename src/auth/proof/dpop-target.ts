/** What the `htu` claim of a DPoP proof must name: the URL of the call as the caller wrote it (RFC 9449 §4.2). */
import { isLoopbackHost } from "../../base/network.ts";
import type { EdgeRequest } from "../edge.ts";

/**
 * Returns the URL of the call without query, in normal form; undefined where it cannot be known.
 * @param publicUrl base URL by which callers reach the service, without a slash at its end. Without one the URL comes
 *   from the request, and then a loopback host only: a `Host` header that may say anything would let a proof that was
 *   made for another server count here.
 */
export function targetOf(edge: EdgeRequest, publicUrl: string | undefined): string | undefined {
  const path = edge.url.split("?", 1)[0] as string;
  const base = publicUrl ?? loopbackBase(edge);
  return base !== undefined && path.startsWith("/") ? URL.parse(base + path)?.href : undefined;
}

/**
 * The URL in normal form (RFC 9449 §4.3 item 9: scheme and host in lowercase, no default port, no dot segments)
 * without query and fragment; undefined where the text is no URL.
 */
export function normalTarget(htu: string): string | undefined {
  const url = URL.parse(htu);
  if (url === null) return undefined;
  url.search = "";
  url.hash = "";
  return url.href;
}

function loopbackBase(edge: EdgeRequest): string | undefined {
  // HTTP/2 has the host in a pseudo-header (RFC 9113 §8.3.1).
  const hosts = [...edge.headerValues(":authority"), ...edge.headerValues("host")];
  const [host] = hosts;
  if (host === undefined || hosts.length > 1 || !/^[A-Za-z0-9.[\]:-]+$/.test(host)) return undefined;
  const base = `${edge.encrypted === true ? "https" : "http"}://${host}`;
  const url = URL.parse(base);
  return url !== null && isLoopbackHost(url.hostname) ? base : undefined;
}
