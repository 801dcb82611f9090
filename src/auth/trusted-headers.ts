/** The caller from headers of a trusted ingress, which has authenticated it in its own way. */
import type { Caller } from "../base/caller.ts";
import { parsePrincipalId, parseTenantId } from "../base/ids.ts";
import { canonicalText, type InboundRequest } from "../base/inbound-request.ts";
import { type AttributeHeaders, headerAttributes } from "./attributes.ts";
import { missingIdentity, refusedToken } from "./challenge.ts";
import { scopesFromText } from "./claims.ts";
import { isAuthenticatedIngress, type TrustedIngress } from "./trusted-ingress.ts";

/** Names of the headers, lowercase. */
export interface IdentityHeaderNames {
  readonly tenant: string;
  readonly principal: string;
  readonly subject: string;
  /** Space separated. */
  readonly scopes: string;
}

export interface IdentityHeaderRule {
  readonly names: IdentityHeaderNames;
  /** Absent: no attributes are read. */
  readonly attributes?: AttributeHeaders;
  /** The only peer whose headers count, over an authenticated hop. */
  readonly ingress: TrustedIngress;
}

/** The names under a deployment's prefix, such as `x-svc-`. */
export function identityHeaderNames(prefix: string): IdentityHeaderNames {
  return {
    tenant: `${prefix}tenant-id`,
    principal: `${prefix}user-id`,
    subject: `${prefix}subject`,
    scopes: `${prefix}scopes`,
  };
}

/** Longest list of scopes, in characters. */
const maximumScopesLength = 4096;

/**
 * Derives the caller of this one call; nothing is kept from earlier calls of the connection. All four headers must be
 * there exactly once and well formed; only scopes may be empty. Trailers are never read: they come after the decision.
 * @param onIgnored called when another peer sends identity headers
 * @throws ServiceError `missing_token` without identity headers of the ingress, `invalid_token` if they are not valid
 */
export function callerFromHeaders(inbound: InboundRequest, rule: IdentityHeaderRule, onIgnored: () => void): Caller {
  const { names, ingress } = rule;
  if (Object.values(names).every((name) => inbound.headerValues(name).length === 0)) throw missingIdentity();
  if (!isAuthenticatedIngress(inbound, ingress)) {
    onIgnored();
    throw missingIdentity();
  }
  refuseTrailers(inbound, [...Object.values(names), ...Object.values(rule.attributes?.names ?? {})]);
  const tenantId = parseTenantId(onlyValue(inbound, names.tenant));
  if (tenantId === undefined)
    throw refusedToken("invalid_token", "the tenant header is missing, repeated or malformed");
  const principalId = parsePrincipalId(canonicalValue(inbound, names.principal));
  if (principalId === undefined)
    throw refusedToken("invalid_token", "the user header is missing, repeated or malformed");
  // A subject follows the same rule as a principal.
  const subject = parsePrincipalId(canonicalValue(inbound, names.subject));
  if (subject === undefined)
    throw refusedToken("invalid_token", "the subject header is missing, repeated or malformed");
  const scopes = readScopes(inbound, names.scopes);
  const attributes = rule.attributes && headerAttributes(inbound, rule.attributes);
  return { tenantId, principalId, subject, authSource: "trusted_headers", scopes, ...attributes };
}

/** An ingress that announces one of the names as a trailer (RFC 9110 §6.6.2) forwards text of the caller. */
function refuseTrailers(inbound: InboundRequest, names: readonly string[]): void {
  const announced = inbound.headerValues("trailer").flatMap((value) => value.toLowerCase().split(","));
  const forbidden = new Set(names);
  if (announced.some((name) => forbidden.has(name.trim()))) {
    throw refusedToken("invalid_token", "an identity header is announced as a trailer");
  }
}

function readScopes(inbound: InboundRequest, name: string): readonly string[] {
  const values = inbound.headerValues(name);
  const [value] = values;
  const fits = value !== undefined && values.length === 1 && value.length <= maximumScopesLength;
  const scopes = fits && (value === "" || canonicalText(value) !== undefined) ? scopesFromText(value) : undefined;
  if (scopes === undefined) throw refusedToken("invalid_token", "the scopes header is missing, repeated or malformed");
  return scopes;
}

/** Returns the value if it is canonical; else the empty text, which is no valid id. */
function canonicalValue(inbound: InboundRequest, name: string): string {
  return canonicalText(onlyValue(inbound, name)) ?? "";
}

/** Returns the value of a header that is there once; else the empty text. */
function onlyValue(inbound: InboundRequest, name: string): string {
  const values = inbound.headerValues(name);
  return values.length === 1 ? (values[0] as string) : "";
}
