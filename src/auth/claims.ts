/** Derives the caller from the claims of a verified access token. */
import type { JWTPayload } from "jose";
import type { AuthSource, Caller } from "../base/caller.ts";
import { parsePrincipalId, parseTenantId } from "../base/ids.ts";
import type { IssuerEntry } from "../base/issuers.ts";
import type { ReadAttributes } from "./attributes.ts";
import { refusedToken } from "./challenge.ts";

/** scope-token = 1*( %x21 / %x23-5B / %x5D-7E ) (RFC 6749 §3.3) */
const scopeToken = /^[\x21\x23-\x5B\x5D-\x7E]+$/;

/**
 * Derives the caller. All claims must be present and well formed; only the tenant may be absent, if the issuer has a
 * single one. Does NOT check that the issuer is responsible for the tenant.
 * @throws ServiceError `invalid_token`
 */
export function callerFromClaims(
  payload: JWTPayload,
  { claims: names, tenants }: Pick<IssuerEntry, "claims" | "tenants">,
  authSource: AuthSource,
  readAttributes: ReadAttributes,
): Caller {
  const isImplied = tenants.kind === "fixed" && !Object.hasOwn(payload, names.tenant);
  const tenantId = isImplied ? tenants.tenantId : parseTenantId(textClaim(payload, names.tenant) ?? "");
  if (tenantId === undefined) throw refusedToken("invalid_token", "the access token carries no valid tenant claim");
  const principalId = parsePrincipalId(textClaim(payload, names.principal) ?? "");
  if (principalId === undefined) {
    throw refusedToken("invalid_token", "the access token carries no valid principal claim");
  }
  // A subject obeys the same rule as a principal: 1 to 256 characters of clean text.
  const subject = parsePrincipalId(textClaim(payload, names.subject) ?? "");
  if (subject === undefined) throw refusedToken("invalid_token", "the access token carries no valid subject claim");
  const scopes = parseScopes(ownClaim(payload, names.scope));
  if (scopes === undefined) throw refusedToken("invalid_token", "the access token carries no valid scope claim");
  return { tenantId, principalId, subject, authSource, scopes, ...readAttributes(payload) };
}

/** Scopes from a space-separated string or an array of strings. Undefined if the value is neither. */
function parseScopes(value: unknown): readonly string[] | undefined {
  if (typeof value === "string") return scopesFromText(value);
  return Array.isArray(value) ? scopesFromTokens(value) : undefined;
}

/** Scopes from a space-separated text (RFC 6749 §3.3), in order, without duplicates. Undefined if malformed. */
export function scopesFromText(text: string): readonly string[] | undefined {
  return text === "" ? [] : scopesFromTokens(text.split(" "));
}

function scopesFromTokens(tokens: readonly unknown[]): readonly string[] | undefined {
  const scopes = new Set<string>();
  for (const token of tokens) {
    if (typeof token !== "string" || !scopeToken.test(token)) return undefined;
    scopes.add(token);
  }
  return [...scopes];
}

function textClaim(payload: JWTPayload, name: string): string | undefined {
  const value = ownClaim(payload, name);
  return typeof value === "string" ? value : undefined;
}

function ownClaim(payload: JWTPayload, name: string): unknown {
  return Object.hasOwn(payload, name) ? payload[name] : undefined;
}
