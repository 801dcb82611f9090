/** Finding records by what they speak of. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { RecordKind } from "./record.ts";

/**
 * What records are found by. `decision_id` finds the decision and everything that cites it; `artifact_digest` and `cid`
 * what was said of an artifact; `resource_id`, `attribute` (`key=value`) and `label` what the request was about;
 * `on_behalf_of` (see `subjectTerm`) whom an enforcement point asked for; `subject` and `principal` whose call it was; `reason` what decided; `alert` what of it alerts; `operation` what was asked for; `outcome` what became of it.
 * In the order of how few records they find; `decision_id` before all that indexes have, because a decision's own id is in
 * none.
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

/** What speaks of the persons in the data, or of what was decided about them, rather than of who called and of artifacts. */
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

/** All that is given must hold. */
export interface SearchQuery {
  readonly tenantId: TenantId;
  readonly terms: readonly SearchTerm[];
  /** Records from this moment on. Milliseconds since the Unix epoch. */
  readonly fromMs?: number;
  /** Records before this moment. Milliseconds since the Unix epoch. */
  readonly toMs?: number;
  /** Records after the one with this index: `next` of the page before. */
  readonly after?: number;
  /** Records of a page, at most: 1 to `maxSearchLimit`. */
  readonly limit: number;
}

/** Most records of a page. */
export const maxSearchLimit = 1_000;

/** Where a record that was found stands. */
export interface FoundRecord {
  readonly leafIndex: number;
  readonly recordId: RecordId;
  readonly kind: RecordKind;
  /** RFC 3339 with milliseconds, UTC. */
  readonly recordedAt: string;
  /** Its leaf is all that is left: it is found by its record id and its time only. */
  readonly erased: boolean;
}

/** Records in the order of the log. */
export interface SearchPage {
  readonly found: readonly FoundRecord[];
  /**
   * What to give as `after` for the page that follows; undefined on the last. A page with `next` may have fewer records
   * than the limit, even none: looking for them ends after a while, so that nobody else waits long.
   */
  readonly next?: number;
}

/** What became of an index that was built anew. */
export interface RebuiltIndex {
  /** Leaves that were looked at. */
  readonly leaves: number;
  /** Leaves whose record was erased: nothing is indexed of them. */
  readonly erased: number;
  /** Leaves whose record cannot be opened: nothing is indexed of them, and `ledger verify` says what is wrong. */
  readonly damaged: readonly number[];
}

/** Builds search indexes anew. */
export interface SearchIndexer {
  /**
   * Builds the index of a tenant's log from its records, beside whoever serves the store, in many small transactions.
   * The one that is there goes on to serve until the new one is whole: a rebuild that is broken off has changed
   * nothing that is seen, and the next one clears it away. Rejects with an Error where the tenant has no log, or
   * another rebuild of the same index that began later was done first; with `store_unavailable` where the store fails.
   */
  rebuild(tenantId: TenantId, onProgress: (leaves: number) => void): Promise<RebuiltIndex>;
  close(): Promise<void>;
}
