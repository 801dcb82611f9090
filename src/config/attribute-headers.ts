/** `SVC_ATTRIBUTE_HEADERS`: the headers in which a trusted ingress sends attributes of the caller. */
import { map, ValueProblem } from "./raw.ts";

/** Lowercase name of the header, by attribute. */
export type AttributeHeaders = Readonly<Record<string, string>>;

/** Headers of HTTP itself, and those that callers and proxies use for other purposes. */
const takenHeaders: readonly string[] = [
  ...["authorization", "proxy-authorization", "dpop", "host", "connection", "trailer", "te", "upgrade", "expect"],
  ...["content-type", "content-length", "content-encoding", "transfer-encoding", "accept", "accept-encoding", "cookie"],
  ...["x-forwarded-for", "x-request-id", "idempotency-key", "traceparent", "tracestate", "forwarded"],
];
/** Headers under the service's own prefix. */
const ownHeaders: readonly string[] = [
  ...["tenant-id", "user-id", "subject", "scopes", "mtls-client-certificate", "receipt"],
];

/** Whether the header is one of those under the prefix. */
export function isOwnHeader(header: string, headerPrefix: string): boolean {
  return ownHeaders.some((name) => header === `${headerPrefix}${name}`);
}

/** A map from attribute to header: each header has one meaning. */
export const attributeHeaders = map((entries): AttributeHeaders => {
  const seen = new Set<string>();
  for (const [attribute, header] of Object.entries(entries)) {
    if (!/^[a-z][a-z0-9_]{0,63}$/.test(attribute)) {
      throw new ValueProblem("has an invalid attribute name: lowercase letters, digits and underscores");
    }
    if (typeof header !== "string" || !/^[a-z0-9][a-z0-9-]{0,126}$/.test(header) || takenHeaders.includes(header)) {
      throw new ValueProblem(`needs the lowercase name of a separate header for ${attribute}`);
    }
    if (seen.has(header)) throw new ValueProblem("names a header twice");
    seen.add(header);
  }
  return entries as AttributeHeaders;
});
