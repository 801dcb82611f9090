/**
 * Checks a query's values against the types of the schema. Cedar could check every request, for a third of the cost of
 * a decision; a test compares this file with Cedar's own validation.
 */
import type { PolicyQuery } from "./decision.ts";
import type { Input, InputCatalogue, InputKind } from "./inputs.ts";

/** Checks every input, including those that no policy reads. Ignores members that are not inputs. */
export function hasSchemaTypes(query: PolicyQuery, { always, ofRegistered, ofOnBehalfOf }: InputCatalogue): boolean {
  return (
    haveTypes(query, always) &&
    (query.registered === undefined || haveTypes(query, ofRegistered)) &&
    (query.onBehalfOf === undefined || haveTypes(query, ofOnBehalfOf))
  );
}

function haveTypes(query: PolicyQuery, inputs: readonly Input[]): boolean {
  for (const { kind, optional, value } of inputs) {
    const found = value(query);
    if (found === undefined ? !optional : !checks[kind](found)) return false;
  }
  return true;
}

const checks: Readonly<Record<InputKind, (value: unknown) => boolean>> = {
  text: isText,
  set_of_text: areTexts,
  whole_number: isLong,
  yes_no: (value) => typeof value === "boolean",
  tags: areTags,
  record: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
};

/** A lone surrogate cannot be written as UTF-8. */
function isText(value: unknown): boolean {
  return typeof value === "string" && value.isWellFormed();
}

function areTexts(values: unknown): boolean {
  if (!Array.isArray(values)) return false;
  for (const value of values) if (!isText(value)) return false;
  return true;
}

function areTags(tags: unknown): boolean {
  if (typeof tags !== "object" || tags === null || Array.isArray(tags)) return false;
  for (const [key, value] of Object.entries(tags)) if (!isText(key) || !isText(value)) return false;
  return true;
}

/** A 64-bit signed integer that survives JSON. Not -2^63: `JSON.stringify` writes it as ...776000, out of range. */
function isLong(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) > -(2 ** 63) && (value as number) < 2 ** 63;
}
