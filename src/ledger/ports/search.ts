/** Search for records. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { RecordKind } from "./record.ts";

/**
 * Search fields. `decision_id` finds the decision and everything that cites it; `artifact_digest` and `cid` find
 * records about an artifact; `resource_id`, `attribute` (`key=value`) and `label` match the request; `on_behalf_of`
 * (see `subjectTerm`) is the subject of an AuthZEN question; `subject` and `principal` are the caller's; `reason` and
 * `alert` are the decision's; `operation` is the requested one; `outcome` is the result. The most selective fields come
 * first; `decision_id` precedes all indexed fields, because a decision's own id is in no index.
 */
export const searchFields = [
  "record_id",
  "decision_id",
  "request_id",
  "artifact_digest",
  "cid",
  "resource_id",
  "attribute",
  "label",
  "on_behalf_of",
  "subject",
  "principal",
  "reason",
  "alert",
  "operation",
  "outcome",
] as const;

export type SearchField = (typeof searchFields)[number];

/** Fields about the persons in the data, or about decisions on them, rather than about callers and artifacts. */
export const contentFields: ReadonlySet<SearchField> = new Set([
  "request_id",
  "resource_id",
  "attribute",
  "label",
  "on_behalf_of",
  "reason",
  "alert",
  "operation",
  "outcome",
]);

/** A value that a record must have. */
export interface SearchTerm {
  readonly field: SearchField;
  readonly value: string;
}

/** All conditions must hold. */
export interface SearchQuery {
  readonly tenantId: TenantId;
  readonly terms: readonly SearchTerm[];
  /** Records from this time on. Milliseconds since the Unix epoch. */
  readonly fromMs?: number;
  /** Records before this time. Milliseconds since the Unix epoch. */
  readonly toMs?: number;
  /** Records after this index: `next` of the previous page. */
  readonly after?: number;
  /** Most records of a page: 1 to `maxSearchLimit`. */
  readonly limit: number;
}

export const maxSearchLimit = 1_000;

/** Position of a matching record. */
export interface FoundRecord {
  readonly leafIndex: number;
  readonly recordId: RecordId;
  readonly kind: RecordKind;
  /** RFC 3339 with milliseconds, UTC. */
  readonly recordedAt: string;
  /** Only the leaf is left: the record is found by its id and time only. */
  readonly erased: boolean;
}

/** Records in the order of the log. */
export interface SearchPage {
  readonly found: readonly FoundRecord[];
  /**
   * Value of `after` for the next page; undefined on the last. A page with `next` may have fewer records than the
   * limit, even none: the search stops after a while, so that it delays no others.
   */
  readonly next?: number;
}

/** Result of an index rebuild. */
export interface RebuiltIndex {
  /** Leaves that were read. */
  readonly leaves: number;
  /** Leaves whose record was erased and is not indexed. */
  readonly erased: number;
  /** Leaves whose record cannot be opened and is not indexed; `ledger verify` reports the damage. */
  readonly damaged: readonly number[];
}
