/** Derives the caller from the claims of a verified access token. */
import type { JWTPayload } from "jose";
import {
  type AttributeDeclaration,
  type AttributeDeclarations,
  type AttributeType,
  type AttributeValue,
  type AuthSource,
  attributeValue,
  type Caller,
  type DeclaredAttributes,
} from "../base/caller.ts";
import { parsePrincipalId, parseTenantId } from "../base/ids.ts";
import { canonicalText, type InboundRequest } from "../base/inbound-request.ts";
import type { IssuerEntry } from "../base/issuers.ts";
import { isObject, orUndefined } from "../base/json.ts";
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

// The caller's attributes that the operator declares, read from credentials.

export type CallerAttributes = Pick<Caller, "attributes" | "declaredAttributes">;

/** Reads the declared attributes from claims. Throws as `callerFromClaims` does. */
export type ReadAttributes = (payload: JWTPayload) => CallerAttributes;

/**
 * Reads attributes from claims.
 * @param pathOf names of members from the outside in; default: those of the declaration
 */
export function claimedAttributes(
  declared: DeclaredAttributes,
  pathOf = ({ claim }: AttributeDeclaration, _name: string): readonly string[] => claim,
): ReadAttributes {
  return (payload) =>
    valuesOf(declared.current, "the access token carries no valid attribute", (declaration, name) =>
      claimAt(payload, pathOf(declaration, name)),
    );
}

/** Attributes that a trusted ingress forwards, and their headers. */
export interface AttributeHeaders {
  readonly declared: DeclaredAttributes;
  /** Lowercase name of the header, by attribute. Attributes without a header are absent. */
  readonly names: Readonly<Record<string, string>>;
}

/**
 * Reads attributes from headers. Refuses a header that is there twice, required or not, because one of the two may come
 * from an attacker.
 * @throws ServiceError `invalid_token`
 */
export function headerAttributes(inbound: InboundRequest, { declared, names }: AttributeHeaders): CallerAttributes {
  return valuesOf(declared.current, "no valid header for the attribute", ({ type }, name) => {
    const header = Object.hasOwn(names, name) ? names[name] : undefined;
    const values = header === undefined ? [] : inbound.headerValues(header);
    // RFC 9110 §5.3: a proxy may join several with commas.
    if (values.length > 1 || values[0]?.includes(","))
      throw refusedToken("invalid_token", `more than one header for the attribute ${name}`);
    return values[0] === undefined ? undefined : headerValue(type, values[0]);
  });
}

/** @param refusal message if a required attribute is missing or has another type; its name follows */
function valuesOf(
  declaredAttributes: AttributeDeclarations,
  refusal: string,
  read: (declaration: AttributeDeclaration, name: string) => unknown,
): CallerAttributes {
  const declarations = Object.entries(declaredAttributes);
  if (declarations.length === 0) return {};
  const values: Record<string, AttributeValue> = {};
  for (const [name, declaration] of declarations) {
    const value = attributeValue(declaration.type, read(declaration, name));
    if (value !== undefined) values[name] = value;
    else if (declaration.required) throw refusedToken("invalid_token", `${refusal} ${name}`);
  }
  return { attributes: values, declaredAttributes };
}

/** Own members only: a claim may be named `__proto__`. */
function claimAt(payload: JWTPayload, path: readonly string[]): unknown {
  let value: unknown = payload;
  for (const name of path) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}

/** Parses a header value; the empty text is an empty set, and no value of other types. */
function headerValue(type: AttributeType, text: string): unknown {
  switch (type) {
    case "text":
      return percentDecoded(canonicalText(text));
    case "set_of_text":
      return text === "" ? [] : allOrNone(canonicalText(text)?.split(" ").map(percentDecoded));
    case "whole_number":
      return /^(?:0|-?[1-9]\d{0,15})$/.test(text) ? Number(text) : undefined;
    case "yes_no":
      return text === "true" ? true : text === "false" ? false : undefined;
  }
}

function allOrNone(texts: readonly (string | undefined)[] | undefined): readonly string[] | undefined {
  return texts?.every((text) => text !== undefined) ? texts : undefined;
}

/** Characters that a header cannot hold, and `%`, are percent-encoded in UTF-8 (RFC 3986 §2.1). */
function percentDecoded(text: string | undefined): string | undefined {
  return text === undefined ? undefined : orUndefined(() => decodeURIComponent(text));
}
