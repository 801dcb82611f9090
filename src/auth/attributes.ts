/** The attributes of the caller that the operator declares, as credentials have them. */
import type { JWTPayload } from "jose";
import type { Caller } from "../base/caller.ts";
import {
  type AttributeDeclaration,
  type AttributeDeclarations,
  type AttributeType,
  type AttributeValue,
  attributeValue,
  type DeclaredAttributes,
} from "../base/caller-attributes.ts";
import { refusedToken } from "./challenge.ts";
import { canonicalText, type InboundRequest } from "./inbound-request.ts";

/** What is read of a caller besides, and by which declarations. */
export type CallerAttributes = Pick<Caller, "attributes" | "declaredAttributes">;

/** Reads the attributes that the claims have; none where none are declared. Throws as `callerFromClaims` does. */
export type ReadAttributes = (payload: JWTPayload) => CallerAttributes;

/** Reads attributes where `claim` of each declaration says that a token has them. */
export function claimedAttributes(declared: DeclaredAttributes): ReadAttributes {
  return (payload) =>
    valuesOf(declared.current, "the access token carries no valid attribute", ({ claim }) => claimAt(payload, claim));
}

/** Reads attributes as members of the one claim of that name. */
export function attributesWithin(claim: string, declared: DeclaredAttributes): ReadAttributes {
  return (payload) =>
    valuesOf(declared.current, "the access token carries no valid attribute", (_, name) =>
      claimAt(payload, [claim, name]),
    );
}

/** Which attributes a trusted ingress names, and how. */
export interface AttributeHeaders {
  readonly declared: DeclaredAttributes;
  /** Lowercase name of the header, by attribute. Attributes without one are absent. */
  readonly names: Readonly<Record<string, string>>;
}

/**
 * Reads attributes from headers: a header that is there twice is refused, whether its attribute is required or not,
 * because one of the two came from somebody else.
 * @throws ServiceError `invalid_token`
 */
export function headerAttributes(inbound: InboundRequest, { declared, names }: AttributeHeaders): CallerAttributes {
  return valuesOf(declared.current, "no valid header for the attribute", ({ type }, name) => {
    const header = Object.hasOwn(names, name) ? names[name] : undefined;
    const values = header === undefined ? [] : inbound.headerValues(header);
    // RFC 9110 §5.3: who passes a header on may join several with commas.
    if (values.length > 1 || values[0]?.includes(","))
      throw refusedToken("invalid_token", `more than one header for the attribute ${name}`);
    return values[0] === undefined ? undefined : headerValue(type, values[0]);
  });
}

/** @param refusal what a caller is told where a required attribute is missing or of another type; its name follows */
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

/** Own members alone: a claim `__proto__` is one like others. */
function claimAt(payload: JWTPayload, path: readonly string[]): unknown {
  let value: unknown = payload;
  for (const name of path) {
    if (typeof value !== "object" || value === null || Array.isArray(value) || !Object.hasOwn(value, name)) {
      return undefined;
    }
    value = (value as Readonly<Record<string, unknown>>)[name];
  }
  return value;
}

/** A value as an ingress writes it; the empty text is an empty set, and for other types it is no value. */
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

/** What a header cannot hold as it is comes percent-encoded, in UTF-8 (RFC 3986 §2.1); and so does `%`. */
function percentDecoded(text: string | undefined): string | undefined {
  try {
    return text === undefined ? undefined : decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
