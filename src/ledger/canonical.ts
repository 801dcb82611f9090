/** Canonical JSON (RFC 8785): one value, one sequence of bytes, in every language. */
import canonicalize from "canonicalize";
import { isCleanText } from "../base/ids.ts";
import type { JsonValue } from "../base/json.ts";

/** Deeper values are refused: no request has more than a few levels, and the walk below is recursive. */
const maxDepth = 32;

/**
 * Refuses what RFC 8785 cannot express or a store cannot index: text that is not well-formed or holds U+0000, numbers
 * that are not finite, values that are no JSON, nesting over 32 levels. Throws a TypeError that names the problem and
 * neither member nor value, because members may be a caller's attribute keys.
 */
export function assertCanonical(value: unknown, depth = 0): void {
  switch (typeof value) {
    case "string":
      if (!isCleanText(value)) throw new TypeError("holds text that is not well-formed Unicode, or U+0000");
      return;
    case "number":
      if (!Number.isFinite(value)) throw new TypeError("holds a number that is not finite");
      return;
    case "boolean":
      return;
    case "object":
      if (value === null) return;
      if (depth === maxDepth) throw new TypeError(`is nested deeper than ${maxDepth} levels`);
      if (Array.isArray(value)) for (const item of value) assertCanonical(item, depth + 1);
      else assertCanonicalMembers(value, depth + 1);
      return;
    default:
      throw new TypeError(`holds a ${typeof value}, which is no JSON value`);
  }
}

function assertCanonicalMembers(object: object, depth: number): void {
  if (typeof (object as { toJSON?: unknown }).toJSON === "function")
    throw new TypeError("holds an object that is not plain");
  for (const [name, member] of Object.entries(object)) {
    if (member === undefined) continue; // absent, as in JSON.stringify
    assertCanonical(name);
    assertCanonical(member, depth);
  }
}

/** Canonical text of a value that `assertCanonical` accepts. Members that are undefined are absent. */
export function canonicalText(value: JsonValue): string {
  const text = canonicalize(value);
  if (text === undefined) throw new TypeError("is no JSON value");
  return text;
}

/**
 * Canonical text of an object whose members have been written already, so that a part that is needed by itself too is
 * written once. Names are ASCII and must come in ascending order: they are a format's own, never a caller's.
 */
export function canonicalObject(members: readonly (readonly [name: string, text: string])[]): string {
  const parts: string[] = [];
  let previous = "";
  for (const [name, text] of members) {
    if (name <= previous) throw new RangeError(`The member ${name} is out of order.`);
    previous = name;
    parts.push(`"${name}":${text}`);
  }
  return `{${parts.join(",")}}`;
}
