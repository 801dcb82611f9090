/** What of a record it can be found by. */
import type { JsonValue } from "../base/json.ts";
import type { StoredRecord } from "./ports.ts";
import type { AppendedRecord } from "./record.ts";
import type { SearchField, SearchTerm } from "./search.ts";
import type { Sequenced } from "./sequence.ts";

/** The part of a record that its terms come from. */
export type TermSource = Pick<StoredRecord, "kind" | "record_id" | "caller" | "request" | "outcome">;

/** A record at its place in the log. */
export interface IndexedRecord {
  readonly leafIndex: number;
  readonly record: TermSource;
}

/**
 * The entries of a batch, to be indexed, without reading their bytes again.
 * @param records what was sequenced
 */
export function indexedRecords(
  { entries, firstLeafIndex }: Sequenced,
  records: readonly AppendedRecord[],
): readonly IndexedRecord[] {
  return entries.flatMap(({ leafIndex, recordId }): readonly IndexedRecord[] => {
    const record = records[Math.max(0, leafIndex - firstLeafIndex)];
    if (record === undefined) return [];
    const { kind, caller, request, outcome } = record;
    // The genesis leaf is of the first record's caller, and asks nothing.
    const own = leafIndex < firstLeafIndex ? { kind: "genesis" as const, request: {}, outcome: {} } : undefined;
    return [{ leafIndex, record: { kind, record_id: recordId, caller, request, outcome, ...own } }];
  });
}

/**
 * Terms of a record, without duplicates; `record_id` is none of them, because every store finds records by it anyway.
 * A decision has its own id as `decision_id`; a registration or an event the one that it cites, whatever became of the
 * citation. A CID is taken as the record has it: as given, and as derived from the object where one was sent.
 */
export function searchTermsOf({ kind, record_id, caller, request, outcome }: TermSource): readonly SearchTerm[] {
  const cids = new Set([request.artifact_cid, request.artifact_merkle_root_cid, outcome.artifact_cid]);
  return [
    ...term("subject", caller.subject),
    ...term("principal", caller.principal_id),
    ...term("decision_id", kind === "decision" ? record_id : request.decision_id),
    ...term("artifact_digest", request.artifact_digest),
    ...[...cids].flatMap((cid) => term("cid", cid)),
  ];
}

/** Whether the record has all of the terms. */
export function hasTerms(record: TermSource, terms: readonly SearchTerm[]): boolean {
  const own = searchTermsOf(record);
  return terms.every(({ field, value }) =>
    field === "record_id"
      ? value === record.record_id
      : own.some((candidate) => candidate.field === field && candidate.value === value),
  );
}

function term(field: SearchField, value: JsonValue | undefined): readonly SearchTerm[] {
  return typeof value === "string" && value !== "" ? [{ field, value }] : [];
}
