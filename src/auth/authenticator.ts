/** Authenticates callers by access token, by trusted headers, or by both, as configured. */
import type { Caller } from "../base/caller.ts";
import { ServiceError } from "../base/errors.ts";
import { parsePrincipalId, parseTenantId } from "../base/ids.ts";
import { canonicalText, type InboundRequest } from "../base/inbound-request.ts";
import { type AccessTokens, createAccessTokens, type TokenDependencies, type TokenOptions } from "./access-tokens.ts";
import { insufficientScope, missingToken, refusedToken, type TokenScheme, underDpop } from "./challenge.ts";
import { type AttributeHeaders, headerAttributes, scopesFromText } from "./claims.ts";
import { isAuthenticatedIngress, type TrustedIngress } from "./trusted-ingress.ts";

/** With both members, any `Authorization` header decides, good or bad; other calls use identity headers. */
export interface AuthenticatorOptions {
  /** Undefined: access tokens are not accepted, and the `Authorization` header is ignored. */
  readonly tokens: TokenOptions | undefined;
  /** Undefined: identity headers are not accepted. */
  readonly identityHeaders: IdentityHeaderRule | undefined;
}

/** Authenticates calls by any accepted credentials. Without access tokens, there are no issuers. */
export type Authenticator = AccessTokens;

/** @throws Error if no credentials could be accepted */
export function createAuthenticator(
  { tokens, identityHeaders }: AuthenticatorOptions,
  dependencies: TokenDependencies,
): Authenticator {
  const accessTokens = createAccessTokens(tokens ?? noIssuers, dependencies);
  if (identityHeaders === undefined) {
    if (tokens === undefined) throw new Error("neither access tokens nor identity headers are configured");
    return accessTokens;
  }
  const orByHeaders =
    (byToken: Authenticator["authenticate"]): Authenticator["authenticate"] =>
    async (inbound, signal) => {
      // Any `Authorization` header decides: a bad token must not fall back to the ingress's identity headers.
      const hasToken = tokens !== undefined && inbound.headerValues("authorization").length > 0;
      if (hasToken) return byToken(inbound, signal);
      return callerFromHeaders(inbound, identityHeaders, () =>
        dependencies.onEvent({ type: "identity_headers_ignored", remoteAddress: inbound.remoteAddress }),
      );
    };
  const { authenticate, authenticateStill } = accessTokens;
  return {
    ...accessTokens,
    authenticate: orByHeaders(authenticate),
    authenticateStill: orByHeaders(authenticateStill),
  };
}

/** Accepts no access token. */
const noIssuers: TokenOptions = { issuers: [], proofOfPossession: { mode: "none" } };

// The caller from headers of a trusted ingress, which has authenticated it in its own way.

/** Names of the headers, lowercase. */
interface IdentityHeaderNames {
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
  const missing = () => missingToken("identity headers of the trusted ingress are required");
  if (Object.values(names).every((name) => inbound.headerValues(name).length === 0)) throw missing();
  if (!isAuthenticatedIngress(inbound, ingress)) {
    onIgnored();
    throw missing();
  }
  refuseTrailers(inbound, [...Object.values(names), ...Object.values(rule.attributes?.names ?? {})]);
  const tenantId = valid("tenant", parseTenantId(onlyValue(inbound, names.tenant)));
  const principalId = valid("user", parsePrincipalId(canonicalValue(inbound, names.principal)));
  // A subject follows the same rule as a principal.
  const subject = valid("subject", parsePrincipalId(canonicalValue(inbound, names.subject)));
  const scopes = valid("scopes", readScopes(inbound, names.scopes));
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

function valid<T>(name: string, value: T | undefined): T {
  if (value !== undefined) return value;
  throw refusedToken("invalid_token", `the ${name} header is missing, repeated or malformed`);
}

function readScopes(inbound: InboundRequest, name: string): readonly string[] | undefined {
  const values = inbound.headerValues(name);
  const [value] = values;
  const fits = value !== undefined && values.length === 1 && value.length <= maximumScopesLength;
  return fits && (value === "" || canonicalText(value) !== undefined) ? scopesFromText(value) : undefined;
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

// Checks of what an authenticated caller may do.

/**
 * Refuses a caller without all of the scopes. Scopes are compared byte for byte; none implies another.
 * @param scheme of the caller's token, for the challenge
 * @throws ServiceError `missing_scope`, which names the required and the missing scopes
 */
export function requireScopes(caller: Caller, required: readonly string[], scheme: TokenScheme = "Bearer"): void {
  const missing = required.filter((scope) => !caller.scopes.includes(scope));
  if (missing.length === 0) return;
  const refusal = insufficientScope(required, missing);
  throw scheme === "DPoP" ? underDpop(refusal) : refusal;
}

/**
 * Requires that every value of a tenant header equals the tenant of the credentials byte for byte (specification 5.5).
 * The header may be absent. Two values joined by a comma equal no tenant.
 * @param headerName lowercase
 * @throws ServiceError `tenant_mismatch`
 */
export function matchTenantHeader(caller: Caller, inbound: InboundRequest, headerName: string): void {
  if (inbound.headerValues(headerName).every((value) => value === caller.tenantId)) return;
  throw new ServiceError("tenant_mismatch", "the tenant header differs from the tenant of the credentials");
}
