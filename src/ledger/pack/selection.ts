/** Selection of a pack. */
import type { JsonObject } from "../../base/json.ts";
import { isMoment } from "../../base/text-forms.ts";
import type { SearchField } from "../ports/search.ts";

/** Fields for selection by value. */
export const packFields = [
  "artifact_digest",
  "cid",
  "decision_id",
  "principal",
  "on_behalf_of",
] as const satisfies SearchField[];

export type PackField = (typeof packFields)[number];

/**
 * A complete time range; or everything with one value. For an artifact or a decision, this includes the decisions that
 * its records cite, and all that cites those.
 */
export type PackSelection = TimeRange | { readonly field: PackField; readonly value: string };

/** At least one end is given. RFC 3339 with milliseconds, UTC, as in records. */
export interface TimeRange {
  /** First moment of the range. */
  readonly from?: string;
  /** First moment after the range. */
  readonly to?: string;
}

export function isTimeRange(selection: PackSelection): selection is TimeRange {
  return !("field" in selection);
}

/** Whether a selection includes records that decisions link to it. */
export function isLinked(selection: PackSelection): boolean {
  return !isTimeRange(selection) && selection.field !== "principal" && selection.field !== "on_behalf_of";
}

/** The selection for a pack's header. */
export function selectionMembers(selection: PackSelection): JsonObject {
  return isTimeRange(selection) ? { ...selection } : { [selection.field]: selection.value };
}

/** Parses the result of `selectionMembers`; undefined for anything else. */
export function parseSelection(members: unknown): PackSelection | undefined {
  if (typeof members !== "object" || members === null || Array.isArray(members)) return undefined;
  const values: Readonly<Record<string, unknown>> = { ...members };
  const names = Object.keys(values);
  const [name = ""] = names;
  const field = packFields.find((candidate) => candidate === name);
  const value = values[name];
  if (field !== undefined) {
    const isOne = names.length === 1 && typeof value === "string" && value !== "";
    return isOne ? { field, value } : undefined;
  }
  const isRange = names.length > 0 && names.every((end) => (end === "from" || end === "to") && isMoment(values[end]));
  return isRange ? (values as TimeRange) : undefined;
}
