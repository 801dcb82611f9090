/** The search terms of a record. */
import type { RequestId } from "../../base/ids.ts";
import { isObject, type JsonObject, type JsonValue } from "../../base/json.ts";
import { eventOutcome, eventOutcomes, nonePermits } from "../../base/vocabulary.ts";
import { canonicalCid } from "../artifacts/cid.ts";
import { canonicalDigest } from "../artifacts/digest.ts";
import type { RecordCaller, RecordKind, StoredRecord } from "../ports/record.ts";
import type { SearchField, SearchTerm } from "../ports/search.ts";
import type { EncodedRecord } from "../ports/store.ts";

/** The parts of a record with its terms. */
type TermSource = Pick<StoredRecord, "kind" | "record_id" | "request_id" | "caller" | "request" | "outcome">;

/** The index entries of the record at one leaf index. */
export interface IndexedRecord {
  readonly leafIndex: number;
  readonly terms: readonly SearchTerm[];
}

/** Positions of a batch's records: in order from `firstLeafIndex` on, after the genesis if there is one. */
interface SequencedBatch {
  readonly firstLeafIndex: number;
  readonly entries: readonly { readonly leafIndex: number }[];
}

/**
 * Index entries of a batch, without reading its bytes again.
 * @param records what was sequenced
 */
export function indexedRecords(
  { entries, firstLeafIndex }: SequencedBatch,
  records: readonly EncodedRecord[],
): readonly IndexedRecord[] {
  return entries.flatMap(({ leafIndex }): readonly IndexedRecord[] => {
    const record = records[Math.max(0, leafIndex - firstLeafIndex)];
    if (record === undefined) return [];
    // The genesis leaf belongs to the first record's call, and has no content.
    const content = leafIndex < firstLeafIndex ? undefined : record.terms;
    return [{ leafIndex, terms: [...callTermsOf(record.caller, record.requestId), ...(content ?? [])] }];
  });
}

/** Indexed terms of a record, without duplicates. The record's id, which is a decision's own id, needs no index. */
export function indexedTermsOf(record: TermSource): readonly SearchTerm[] {
  return [...callTermsOf(record.caller, record.request_id), ...contentTermsOf(record)];
}

/** Terms of a record, without duplicates and without `record_id`. A decision has its own id as `decision_id`. */
export function searchTermsOf(record: TermSource): readonly SearchTerm[] {
  const own = record.kind === "decision" ? term("decision_id", record.record_id) : [];
  return [...indexedTermsOf(record), ...own, ...commonTermsOf(record)];
}

function callTermsOf({ subject, principal_id }: RecordCaller, requestId: RequestId): readonly SearchTerm[] {
  return [...term("subject", subject), ...term("principal", principal_id), ...term("request_id", requestId)];
}

/** Terms that many records share, and that are not indexed: policies, alerts, operation and outcome. */
function commonTermsOf({ kind, request, outcome }: TermSource): readonly SearchTerm[] {
  const listed = (field: SearchField, values: JsonValue | undefined): readonly SearchTerm[] =>
    kind === "decision" && Array.isArray(values) ? [...new Set(values)].flatMap((value) => term(field, value)) : [];
  const reasons = listed("reason", outcome.reasons);
  const isDefault = kind === "decision" && outcome.allow !== true && reasons.length === 0;
  return [
    ...(isDefault ? term("reason", nonePermits) : reasons),
    ...listed("alert", outcome.alerts),
    ...term("operation", request.operation),
    ...term("outcome", outcomeOf(kind, request, outcome)),
  ];
}

/** Values of `outcome`. */
export const searchedOutcomes = ["allow", "deny", "accepted", ...eventOutcomes, "unknown"] as const;

/** Kinds of records that can have an outcome; outcomes that are not listed are those of events. */
const kindsOfOutcome: Readonly<Record<string, readonly RecordKind[]>> = {
  allow: ["decision"],
  deny: ["decision"],
  accepted: ["registration"],
  refused: ["registration", "evidence"],
};

/** Whether a record of the kind may have all of the terms. Says so without the record's content. */
export function mayHaveTerms(kind: RecordKind, terms: readonly SearchTerm[]): boolean {
  return terms.every(({ field, value }) => {
    if (field === "reason" || field === "alert") return kind === "decision";
    return field !== "outcome" || (kindsOfOutcome[value] ?? ["evidence"]).includes(kind);
  });
}

/** A decision's `allow` or `deny`, a registration's `accepted` or `refused`, an event's outcome word. */
function outcomeOf(kind: RecordKind, request: JsonObject, outcome: JsonObject): JsonValue | undefined {
  if (kind === "decision") return outcome.allow === true ? "allow" : "deny";
  if (kind === "registration") return outcome.accepted === true ? "accepted" : "refused";
  if (kind !== "evidence" || typeof request.outcome !== "string" || request.outcome === "") return undefined;
  return eventOutcome(request.outcome);
}

/**
 * Terms from the request and the answer. A registration or an event has the `decision_id` that it cites, whatever the
 * result of the citation. A CID is taken as the record has it: as given, and as derived from the object if one was
 * sent.
 */
export function contentTermsOf({
  kind,
  request,
  outcome,
}: Pick<TermSource, "kind" | "request" | "outcome">): readonly SearchTerm[] {
  const cids = [request.artifact_cid, request.artifact_merkle_root_cid, outcome.artifact_cid];
  return [
    ...(kind === "decision" ? [] : term("decision_id", request.decision_id)),
    ...term("artifact_digest", request.artifact_digest),
    ...cids.flatMap((cid, position) => (cids.indexOf(cid) < position ? [] : term("cid", cid))),
    ...aboutTermsOf(request),
  ];
}

/**
 * The search value for the subject of an AuthZEN question: type and id, separated by a slash. In the type a slash is
 * `~1` and a `~` is `~0` (as in RFC 6901 §3), so that no two subjects share a value.
 */
export function subjectTerm(type: string, id: string): string {
  return `${type.replaceAll("~", "~0").replaceAll("/", "~1")}/${id}`;
}

function subjectTermsOf(subject: JsonValue | undefined): readonly SearchTerm[] {
  if (!isObject(subject) || typeof subject.type !== "string" || typeof subject.id !== "string") return [];
  return term("on_behalf_of", subjectTerm(subject.type, subject.id));
}

/** Terms of the request's subject matter, besides artifacts. */
function aboutTermsOf({ resource, labels, attributes, on_behalf_of }: JsonObject): readonly SearchTerm[] {
  return [
    ...subjectTermsOf(on_behalf_of),
    ...(isObject(resource) ? term("resource_id", resource.id) : []),
    ...(Array.isArray(labels) ? [...new Set(labels)].flatMap((label) => term("label", label)) : []),
    ...(isObject(attributes) ? Object.entries(attributes) : []).flatMap(([key, value]) =>
      typeof value === "string" ? term("attribute", `${key}=${value}`) : [],
    ),
  ];
}

/** Returns the term with the canonical spelling of a digest or CID; any other term unchanged. */
export function canonicalTerm(term: SearchTerm): SearchTerm {
  const { field, value } = term;
  if (field === "artifact_digest") return { field, value: canonicalDigest(value) };
  return field === "cid" ? { field, value: canonicalCid(value) ?? value } : term;
}

/** Whether the record has all of the terms, with digests and CIDs in any spelling. */
export function hasTerms(record: TermSource, terms: readonly SearchTerm[]): boolean {
  const own = searchTermsOf(record);
  return terms
    .map(canonicalTerm)
    .every(({ field, value }) =>
      field === "record_id"
        ? value === record.record_id
        : own.some((candidate) => candidate.field === field && canonicalTerm(candidate).value === value),
    );
}

function term(field: SearchField, value: JsonValue | undefined): readonly SearchTerm[] {
  return typeof value === "string" && value !== "" ? [{ field, value }] : [];
}
