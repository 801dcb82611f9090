/** Callers, and the attributes of them that the operator declares: names, types and values. */
import { isCleanText, type PrincipalId, type TenantId } from "./ids.ts";

export const authSources = ["bearer_token", "trusted_headers", "session_token"] as const;
export type AuthSource = (typeof authSources)[number];

const expiries = new WeakMap<Caller, number>();

/** Records when the credentials of a caller expire, in milliseconds since the Unix epoch. */
export function noteExpiry(caller: Caller, expiresAtMs: number): void {
  expiries.set(caller, expiresAtMs);
}

/** Returns when the credentials of a caller expire; infinity if never. */
export function expiryOf(caller: Caller): number {
  return expiries.get(caller) ?? Number.POSITIVE_INFINITY;
}

/** The authenticated caller. Every member comes from its credentials, none from a request body. */
export interface Caller {
  readonly tenantId: TenantId;
  readonly principalId: PrincipalId;
  /** Subject of the credentials: 1 to 256 characters. */
  readonly subject: string;
  readonly authSource: AuthSource;
  /** Scopes of the credentials, in order, without duplicates. */
  readonly scopes: readonly string[];
  /** Declared attributes; absent if none are declared. */
  readonly attributes?: AttributeValues;
  /** The declarations behind `attributes`; absent with them. */
  readonly declaredAttributes?: AttributeDeclarations;
}

/** A client of the session route, as the operator registered it. */
export interface SessionClient {
  readonly tenantId: TenantId;
  readonly clientId: string;
  /** In order, without duplicates. */
  readonly scopes: readonly string[];
  /** Attributes of the caller, by name; absent for none. */
  readonly attributes?: AttributeValues;
}

/** What a session token grants. */
export interface SessionGrant extends SessionClient {
  /** Base64url SHA-256 of the client certificate that the token is bound to (RFC 8705 §3.1); undefined for none. */
  readonly certificateThumbprint: string | undefined;
}

export const attributeTypes = ["text", "set_of_text", "whole_number", "yes_no"] as const;
export type AttributeType = (typeof attributeTypes)[number];

/** A value: text, whole number, boolean, or a set of text, sorted and without duplicates. */
export type AttributeValue = string | number | boolean | readonly string[];

/** Values by attribute name. Only own properties count: no name is special. */
export type AttributeValues = Readonly<Record<string, AttributeValue>>;

export interface AttributeDeclaration {
  readonly type: AttributeType;
  /** Claim of a token that holds it: member names from the outside in. */
  readonly claim: readonly string[];
  /** Whether credentials without a valid value are refused. Otherwise the attribute is absent. */
  readonly required: boolean;
}

export type AttributeDeclarations = Readonly<Record<string, AttributeDeclaration>>;

/** The current declarations, which may change. */
export interface DeclaredAttributes {
  readonly current: AttributeDeclarations;
  /** Changes with the declarations. */
  readonly revision: number;
}

export const noDeclaredAttributes: DeclaredAttributes = { current: {}, revision: 0 };

/** Longest text, in UTF-16 units; most members of a set, and their total bytes in UTF-8. */
const maximumText = 1_024;
const maximumMembers = 1_000;
const maximumSetBytes = 64 * 1024;

/**
 * Converts the value to the type; undefined if it does not fit or is too large: text beyond 1,024 characters, a set
 * beyond 1,000 members or 64 KiB, a number beyond 2^53 − 1, which JSON parsers round.
 */
export function attributeValue(type: AttributeType, value: unknown): AttributeValue | undefined {
  switch (type) {
    case "text":
      return isText(value) ? value : undefined;
    case "set_of_text":
      return setOfText(value);
    case "whole_number":
      return typeof value === "number" && Number.isSafeInteger(value) ? value : undefined;
    case "yes_no":
      return typeof value === "boolean" ? value : undefined;
  }
}

/** Returns configured names of attributes that are not declared, and so are never read. */
export function undeclaredNames(declared: AttributeDeclarations, given: readonly object[]): readonly string[] {
  const names = new Set(given.flatMap((values) => Object.keys(values)));
  return [...names].filter((name) => !Object.hasOwn(declared, name)).sort();
}

/** Converts the value to any type that fits, for attributes that are not declared yet. Undefined if none fits. */
export function anyAttributeValue(value: unknown): AttributeValue | undefined {
  return attributeTypes.map((type) => attributeValue(type, value)).find((found) => found !== undefined);
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.length <= maximumText && isCleanText(value);
}

function setOfText(value: unknown): readonly string[] | undefined {
  if (!Array.isArray(value) || value.length > maximumMembers || !value.every(isText)) return undefined;
  let sizeBytes = 0;
  for (const member of value) sizeBytes += Buffer.byteLength(member, "utf8");
  return sizeBytes > maximumSetBytes ? undefined : [...new Set(value)].sort();
}

/** Returns the problems of a caller with these attributes. Authentication never yields a caller with any. */
export function attributeProblems(declared: AttributeDeclarations, values: AttributeValues = {}): readonly string[] {
  const given = Object.entries(values).flatMap(([name, value]) => {
    if (!Object.hasOwn(declared, name)) return [`the attribute ${name} is not declared`];
    const { type } = declared[name] as AttributeDeclaration;
    return attributeValue(type, value) === undefined ? [`the attribute ${name} must be ${typeNames[type]}`] : [];
  });
  const missing = Object.keys(declared).filter((name) => declared[name]?.required && !Object.hasOwn(values, name));
  return [...given, ...missing.map((name) => `the attribute ${name} is required`)];
}

/** Requirement of each type, for people. */
export const typeNames: Readonly<Record<AttributeType, string>> = {
  text: "text of at most 1024 characters",
  set_of_text: "a list of at most 1000 texts",
  whole_number: "a whole number",
  yes_no: "true or false",
};
