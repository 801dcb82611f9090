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
  /** Newest records first. */
  readonly newest?: boolean;
  /** Records after this index, in the order of the search: `next` of the previous page. */
  readonly after?: number;
  /** Searches the log as it was with so many leaves, evidence included; default: all. */
  readonly size?: number;
  /** Most records of a page: 1 to `maxSearchLimit`. */
  readonly limit: number;
  /** Whether results have a summary. */
  readonly summary?: boolean;
  /** Counts the records instead of listing them. */
  readonly countBy?: Counting;
}

/** What records can be counted by: caller, deciding policy, id of the resource, workload's application, day in UTC. */
export const countings = ["principal", "reason", "resource", "application", "day"] as const;
export type Counting = (typeof countings)[number];

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
  /** Decision: the policies that decided. */
  readonly policyRevision?: string;
  /** Absent unless asked for, and if the record was erased. */
  readonly summary?: RecordSummary;
}

/**
 * What arrived of the evidence of an allowed decision: an event that says it was done; only failures; no known outcome;
 * no event, although policy expects one; no event, and none expected; no event among those that were looked at.
 */
export const evidenceCodes = [
  "evidenced",
  "failed",
  "outcome_unknown",
  "missing",
  "not_expected",
  "not_shown",
] as const;
export type EvidenceCode = (typeof evidenceCodes)[number];

/** What a record says, in the names of JSON. Members without a value are absent. */
export interface RecordSummary {
  readonly principal?: string;
  readonly subject?: string;
  /** The workload's application. */
  readonly application?: string;
  /** Operation that was requested or done: `protect`, `access`, `rewrap`, `wrap`, `unwrap`, `deny`. */
  readonly operation?: string;
  readonly resource?: { readonly kind?: string; readonly id?: string };
  readonly purpose?: string;
  readonly labels?: readonly string[];
  /** Names of the artifact in the record. */
  readonly artifact_digest?: string;
  readonly cids?: readonly string[];
  /** Decision: `allowed` or `denied`; registration: `accepted` or `refused`; event: its `outcome`. */
  readonly outcome?: string;
  /** True for an event whose `outcome` is not in `eventOutcomes`. */
  readonly unknown_outcome?: true;
  /** Decision: the policies that decided. */
  readonly reasons?: readonly string[];
  /** Decision: alerts of the policies that decided. */
  readonly alerts?: readonly string[];
  /** Result of the citation when the record was made. */
  readonly citation?: string;
  /** Id of this decision, or of the cited one. */
  readonly decision_id?: string;
  /** Decision: ids of the registrations that it relied on. Absent if none were looked up. */
  readonly relied_on?: readonly string[];
  /** Allowed decision: whether its policy expects evidence. */
  readonly expects_evidence?: boolean;
  /** Allowed AuthZEN question: true if evidence is expected once an artifact is registered under it. */
  readonly expects_evidence_if_registered?: true;
  /** Allowed decision: what arrived of its evidence. */
  readonly evidence?: EvidenceCode;
  /** Erasure, or release of a hold: the record that it is about. */
  readonly about_record?: string;
  /** Reason that an operator gave, such as for an erasure. */
  readonly reason?: string;
}

/** Number of matching records. */
export interface Counted {
  readonly records: number;
  /** By value, most records first. A record with several reasons counts for each; one without any, for none. */
  readonly values: readonly { readonly value: string; readonly records: number }[];
}

/** Records in the order of the log, or the newest first. */
export interface SearchPage {
  readonly found: readonly FoundRecord[];
  /** Of the leaves of this page, if it counts; the counts of all pages add up. */
  readonly counted?: Counted;
  /** Number of leaves of the log. */
  readonly size: number;
  /** Beginning of an id that several records have; nothing is found then. */
  readonly ambiguous?: string;
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
