/** One spelling of what a request asks for: whatever reads it (admission, routes, the log, refusals) reads the same. */
import type { IncomingMessage } from "node:http";

const absoluteForm = /^https?:\/\/([^/?#]*)/i;
const unreserved = /[A-Za-z0-9._~-]/;

/**
 * The target with the path in normal form (RFC 3986 §6.2.2): what need not be encoded is not, and a `#`, which begins
 * nothing in a target, is. What is encoded still is part of no route.
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
 * Gives a request of HTTP/1.1 its canonical target. One in absolute form (RFC 9112 §3.2.2) says by itself for whom it
 * is: its authority takes the place of what `Host` says.
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
