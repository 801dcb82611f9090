/** What headers of all profiles share: their binding, and a single spelling. */
import canonicalize from "canonicalize";
import { EnforcementError } from "./errors.ts";
import type { Resource } from "./platform.ts";
import { isVisible } from "./text.ts";

/** What is protected under which decision; a new key does not change it. */
export interface Binding {
  readonly decision_id: string;
  readonly labels: readonly string[];
  readonly policy_revision: string;
  readonly resource: Resource;
}

/** RFC 8785. */
export function canonical(value: unknown): Buffer {
  const text = canonicalize(value);
  if (text === undefined || !text.isWellFormed()) throw new EnforcementError("invalid", "not a JSON value");
  return Buffer.from(text);
}

/** Bytes of a header. Throws `invalid` if they could not be read again, because the result must open. */
export function encodeCanonical<Header>(header: Header, isHeader: (value: unknown) => value is Header): Buffer {
  const bytes = canonical(header);
  try {
    parseCanonical(bytes, isHeader);
  } catch (cause) {
    throw new EnforcementError("invalid", "a header of this could not be read again", { cause });
  }
  return bytes;
}

/** The contract's members of a resource. Throws `invalid` if one is not text. */
export function resourceOf(given: Resource): Resource {
  const { kind, id, mime_type, mimeType } = given as Resource & { readonly mimeType?: unknown };
  const members = Object.entries({ kind, id, mime_type: mime_type ?? mimeType });
  const present = members.filter(([, text]) => text !== undefined && text !== null);
  for (const [name, text] of present)
    if (typeof text !== "string") throw new EnforcementError("invalid", `${name} of the resource is no text`);
  return Object.fromEntries(present) as unknown as Resource;
}

/** Parses canonical JSON only: no duplicate member, no other order and no space may be added unauthenticated. */
export function parseCanonical<Header>(bytes: Buffer, isHeader: (value: unknown) => value is Header): Header {
  const value = parseJson(bytes, "its header");
  try {
    if (isHeader(value) && canonical(value).equals(bytes)) return value;
  } catch (cause) {
    throw malformed("its header has no canonical form", cause);
  }
  throw malformed("its header is not in canonical form");
}

/** Parses JSON in UTF-8. Throws `not_authentic`, and says what of the artifact it is. */
export function parseJson(bytes: Uint8Array, what: string): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch (cause) {
    throw malformed(`${what} cannot be read`, cause);
  }
}

/** Decodes base64 in its only spelling (RFC 4648 section 4): readers differ in what else they accept. */
export function decodeBase64(text: string): Buffer {
  const bytes = Buffer.from(text, "base64");
  if (bytes.toString("base64") !== text) throw malformed("its base64 is not canonical");
  return bytes;
}

export function malformed(what: string, cause?: unknown): EnforcementError {
  return new EnforcementError("not_authentic", `the artifact cannot be read: ${what}`, { cause });
}

/** Whether it has exactly the members of every binding and those that the profile adds. */
export function isBinding(
  binding: unknown,
  added: readonly string[],
  optional: readonly string[] = [],
): binding is Binding & Readonly<Record<string, unknown>> {
  return (
    hasMembers(binding, ["decision_id", "labels", "policy_revision", "resource", ...added], optional) &&
    areTexts(binding, ["decision_id", "policy_revision"]) &&
    Array.isArray(binding.labels) &&
    binding.labels.every((label) => typeof label === "string") &&
    hasMembers(binding.resource, ["kind"], ["id", "mime_type"]) &&
    areTexts(binding.resource, Object.keys(binding.resource))
  );
}

export function hasMembers(
  value: unknown,
  required: readonly string[],
  optional: readonly string[] = [],
): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const names = Object.keys(value);
  return (
    required.every((name) => names.includes(name)) &&
    names.every((name) => required.includes(name) || optional.includes(name))
  );
}

/** Whether it can name a key: without control characters and changes of text direction. */
export function isReference(value: unknown): boolean {
  return typeof value === "string" && isVisible(value);
}

export function areTexts(value: Readonly<Record<string, unknown>>, members: readonly string[]): boolean {
  return members.every((member) => typeof value[member] === "string");
}
