/** One spelling of request targets, so that admission, routes, log and refusals agree. */
import type { IncomingMessage } from "node:http";

const absoluteForm = /^https?:\/\/([^/?#]*)/i;
const unreserved = /[A-Za-z0-9._~-]/;

/**
 * Returns the target with the path in normal form (RFC 3986 §6.2.2): unneeded encoding is removed, and a `#`, which has
 * no meaning in a target, is encoded. Encoding that remains matches no route.
 */
export function canonicalTarget(target: string): string {
  if (!/[%#]/.test(target)) return target;
  const [, path = "", query = ""] = /^([^?]*)(.*)$/s.exec(target) ?? [];
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
  request.url = canonicalTarget(rest.startsWith("/") ? rest : `/${rest}`);
  request.headers.host = authority;
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]?.toLowerCase() === "host") rawHeaders[i + 1] = authority;
}

/** Returns the target without its query. */
export function pathOf(url: string): string {
  const query = url.indexOf("?");
  return query === -1 ? url : url.slice(0, query);
}
