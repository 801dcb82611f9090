/** The authority that a request is for: `Host`, or `:authority` on HTTP/2. */
import type { IncomingMessage } from "node:http";
import { invalidRequest, type ServiceError } from "../base/errors.ts";
import { headerValues } from "./edge.ts";

/** host [ ":" port ] (RFC 3986 §3.2), never empty and without user information. */
const authorityPattern = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::[0-9]{1,5})?$/;

/**
 * The refusal of a request that does not say exactly once for whom it is (RFC 9112 §3.2, RFC 9113 §8.3.1); undefined
 * where it does. Older versions may leave it out; here nothing is served without it.
 */
export function authorityProblem({ rawHeaders }: IncomingMessage): ServiceError | undefined {
  const authorities = new Set([...headerValues(rawHeaders, ":authority"), ...headerValues(rawHeaders, "host")]);
  const [authority = "", ...others] = authorities;
  if (others.length === 0 && authorityPattern.test(authority)) return undefined;
  return invalidRequest("", "http.host", "the request must name one valid host");
}
