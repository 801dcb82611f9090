/**
 * Checks a query's values against the types of the schema. Cedar could do so with every request, for a third of what a
 * decision costs; a test compares this file with Cedar's own validation.
 */
import type { PolicyQuery } from "./decision.ts";

/** Checks every input, also those that no policy reads. Ignores members that are no inputs. */
export function hasSchemaTypes({ caller, claimed }: PolicyQuery): boolean {
  const { workload, resource } = claimed;
  return (
    isText(caller.tenantId) &&
    isText(caller.principalId) &&
    isText(caller.subject) &&
    isText(caller.authSource) &&
    areTexts(caller.scopes) &&
    isText(workload.application) &&
    isTextOrAbsent(workload.environment) &&
    isTextOrAbsent(workload.component) &&
    isText(resource.kind) &&
    isTextOrAbsent(resource.id) &&
    isTextOrAbsent(resource.mime_type) &&
    isTextOrAbsent(claimed.purpose) &&
    areTexts(claimed.labels) &&
    areTags(claimed.attributes) &&
    isTextOrAbsent(claimed.artifact_profile) &&
    typeof claimed.content_digest_present === "boolean" &&
    (claimed.content_size_bytes === undefined || isLong(claimed.content_size_bytes)) &&
    isTextOrAbsent(claimed.key_reference)
  );
}

/** A lone surrogate cannot be written as UTF-8. */
function isText(value: unknown): boolean {
  return typeof value === "string" && value.isWellFormed();
}

function isTextOrAbsent(value: unknown): boolean {
  return value === undefined || isText(value);
}

function areTexts(values: unknown): boolean {
  if (!Array.isArray(values)) return false;
  for (const value of values) if (!isText(value)) return false;
  return true;
}

function areTags(tags: Readonly<Record<string, unknown>>): boolean {
  if (typeof tags !== "object" || tags === null || Array.isArray(tags)) return false;
  for (const key of Object.keys(tags)) if (!isText(key) || !isText(tags[key])) return false;
  return true;
}

/** A 64-bit signed integer that survives JSON. Not -2^63: `JSON.stringify` writes it as ...776000, out of range. */
function isLong(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) > -(2 ** 63) && (value as number) < 2 ** 63;
}
