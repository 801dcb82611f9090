/** The authority that a request is for: `Host`, or `:authority` on HTTP/2. */
import { invalidRequest, type ServiceError } from "../../base/errors.ts";
import { headerValues } from "./edge.ts";

/** host [ ":" port ] (RFC 3986 §3.2), never empty and without user information. */
const authorityPattern = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::[0-9]{1,5})?$/;

/**
 * The refusal of a request that does not say exactly once for whom it is (RFC 9112 §3.2, RFC 9113 §8.3.1); undefined
 * where it does. Older versions may leave it out; here nothing is served without it.
 */
export function authorityProblem(rawHeaders: readonly string[]): ServiceError | undefined {
  const hosts = headerValues(rawHeaders, "host");
  const [authority = ""] = headerValues(rawHeaders, ":authority").concat(hosts);
  const isOne = hosts.length === 0 || (hosts.length === 1 && hosts[0] === authority);
  if (isOne && authorityPattern.test(authority)) return undefined;
  return invalidRequest("", "http.host", "the request must name one valid host");
}
