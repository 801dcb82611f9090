/** Canonical JSON (RFC 8785): each value has one sequence of bytes, in every language. */
import canonicalize from "canonicalize";
import { isCleanText } from "../../base/ids.ts";
import type { JsonValue } from "../../base/json.ts";

/** Nesting limit: requests have few levels, and the walk below is recursive. */
const maxDepth = 32;

/**
 * Returns canonical text of a value. Refuses what RFC 8785 cannot express or a store cannot index: ill-formed text or
 * U+0000, numbers that are not finite, values that are not JSON, nesting over 32 levels. Throws a TypeError that names the
 * problem and neither member nor value, because members may be a caller's attribute keys.
 *
 * @param depth nesting level of the value
 */
export function assertedCanonicalText(value: unknown, depth: number): string {
  const text = assertValue(value, depth, () => {}) ? JSON.stringify(value) : undefined;
  // JSON escapes U+0000 and lone surrogates like this, but also other control characters, and the text may contain a
  // backslash before a `u`.
  if (text === undefined || text.includes("\\u")) assertValue(value, depth, assertText);
  return text ?? (canonicalize(value) as string);
}

/** Returns whether all members are in the order of RFC 8785 §3.2.3. */
function assertValue(value: unknown, depth: number, onText: (text: string) => void): boolean {
  switch (typeof value) {
    case "string":
      onText(value);
      return true;
    case "number":
      if (!Number.isFinite(value)) throw new TypeError("holds a number that is not finite");
      return true;
    case "boolean":
      return true;
    case "object":
      if (value === null) return true;
      if (depth === maxDepth) throw new TypeError(`is nested deeper than ${maxDepth} levels`);
      return Array.isArray(value) ? assertItems(value, depth + 1, onText) : assertMembers(value, depth + 1, onText);
    default:
      throw new TypeError(`holds a ${typeof value}, which is not a JSON value`);
  }
}

function assertItems(items: readonly unknown[], depth: number, onText: (text: string) => void): boolean {
  let inOrder = true;
  for (const item of items) if (!assertValue(item, depth, onText)) inOrder = false;
  return inOrder;
}

function assertMembers(object: object, depth: number, onText: (text: string) => void): boolean {
  if (typeof (object as { toJSON?: unknown }).toJSON === "function")
    throw new TypeError("holds an object that is not plain");
  let inOrder = true;
  let previous = "";
  for (const name of Object.keys(object)) {
    const member = (object as Readonly<Record<string, unknown>>)[name];
    if (member === undefined) continue; // absent, as in JSON.stringify
    onText(name);
    if (!assertValue(member, depth, onText) || name < previous) inOrder = false;
    previous = name;
  }
  return inOrder;
}

function assertText(text: string): void {
  if (!isCleanText(text)) throw new TypeError("holds text that is not well-formed Unicode, or U+0000");
}

/**
 * Returns canonical text of a value; throws as `assertedCanonicalText` does, but does not look at text. Undefined members are
 * absent. Objects with members in order cost a fraction of others: RFC 8785 §3.2.2 writes everything else as ECMAScript
 * does.
 */
export function canonicalText(value: JsonValue): string {
  return assertValue(value, 0, () => {}) ? JSON.stringify(value) : (canonicalize(value) as string);
}
