/**
 * Whether a question's values are of the types that the schema gives the facts. Cedar could be asked this with every
 * question, and that would be a third of what an answer costs; a test compares this file with Cedar's own verdict.
 */
import type { PolicyQuery } from "./decision.ts";

/** Every fact is looked at, also one that no policy reads. Members that are no facts are not looked at. */
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

/** Text that is not well-formed has no form in JSON's UTF-8. */
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

/** A signed integer of 64 bits as JSON writes it: the least one is rounded to one that is none. */
function isLong(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) > -(2 ** 63) && (value as number) < 2 ** 63;
}
