/** Summaries of records: what a search, a report or a lineage shows of them. */
import type { RecordId } from "../../base/ids.ts";
import { defined, type JsonObject, type JsonValue, objectOf } from "../../base/json.ts";
import { evaluationPath, eventOutcome, nonePermits } from "../../base/vocabulary.ts";
import type { RecordKind, StoredRecord } from "../ports/record.ts";
import type { Counted, Counting, EvidenceCode, FoundRecord, RecordSummary } from "../ports/search.ts";

const outcomes: Readonly<Partial<Record<RecordKind, (outcome: JsonObject, said?: string) => string>>> = {
  decision: ({ allow }) => (allow === true ? "allowed" : "denied"),
  registration: ({ accepted }) => (accepted === true ? "accepted" : "refused"),
  evidence: (_, said) => said ?? "recorded",
};

/** Returns the summary of a record, without what arrived of its evidence. */
export function summaryOf(record: StoredRecord): RecordSummary {
  const { kind, request, outcome, caller } = record;
  const isDecision = kind === "decision";
  const cids = [request.artifact_cid, request.artifact_merkle_root_cid, outcome.artifact_cid];
  const isUnknown = kind === "evidence" && eventOutcome(textOf(request.outcome) ?? "completed") === "unknown";
  return defined({
    principal: textOf(caller.principal_id),
    subject: textOf(caller.subject),
    application: textOf(objectOf(request.workload).application),
    operation: textOf(request.operation) ?? textOf(request.event_type),
    resource: resourceOf(objectOf(request.resource)),
    purpose: textOf(request.purpose),
    labels: textsOf(request.labels),
    artifact_digest: textOf(request.artifact_digest),
    cids: textsOf([...new Set(cids)]),
    outcome: outcomes[kind]?.(outcome, textOf(request.outcome)),
    unknown_outcome: isUnknown ? true : undefined,
    reasons: isDecision ? textsOf(outcome.reasons) : undefined,
    alerts: isDecision ? textsOf(outcome.alerts) : undefined,
    citation: textOf(outcome.citation),
    decision_id: isDecision ? record.record_id : textOf(request.decision_id),
    relied_on: isDecision ? reliedOnIds(outcome) : undefined,
    ...(isDecision && outcome.allow === true && expectedEvidence(record)),
    about_record: textOf(request.record_id),
    reason: textOf(request.reason),
  });
}

/** Ids of the registrations that a recorded decision relied on; undefined if none were looked up. */
export function reliedOnIds({ registered }: JsonObject): readonly RecordId[] | undefined {
  if (!Array.isArray(registered)) return undefined;
  return registered.map((one: JsonValue) => objectOf(one).record_id as RecordId);
}

/** An AuthZEN question permits no act: it expects evidence only once something was registered under it. */
function expectedEvidence({ route, outcome }: StoredRecord) {
  const expected = objectOf(outcome.guidance).evidence_expected;
  const isExpected = !(Array.isArray(expected) && expected.length === 0);
  if (route !== evaluationPath) return { expects_evidence: isExpected };
  return { expects_evidence: false, ...(isExpected && { expects_evidence_if_registered: true as const }) };
}

/** Outcome that an event reports for its decision. Of several events, the last outcome in this order counts. */
const words = ["announced", "failed", "unclear", "done"] as const;
type Word = (typeof words)[number];

/** Collects what arrived of the evidence of decisions. */
export class ArrivedEvidence {
  /** Decisions with a matched event, and the combined report of their events. */
  readonly #words = new Map<string, Word>();
  /** Decisions with a matched, accepted registration. */
  readonly #registered = new Set<string>();

  /** Takes a record that cites a decision; any other changes nothing. */
  take(kind: RecordKind, summary: RecordSummary): void {
    const { decision_id: cited, citation, outcome, operation } = summary;
    if (cited === undefined || citation !== "matched") return;
    if (kind === "registration" && outcome === "accepted") this.#registered.add(cited);
    if (kind !== "evidence" || operation === "deny") return;
    const said = [wordOf(summary), this.#words.get(cited)];
    this.#words.set(cited, words.findLast((word) => said.includes(word)) as Word);
  }

  /** @param taken whether every event, and every registration, that cites the decision was taken */
  of(
    decisionId: string,
    summary: RecordSummary,
    taken: Readonly<Record<"events" | "registrations", boolean>>,
  ): EvidenceCode {
    const said = this.#words.get(decisionId);
    if (said === "done") return "evidenced";
    if (said !== undefined) return said === "failed" ? "failed" : "outcome_unknown";
    const { expects_evidence: isExpected, expects_evidence_if_registered: isQuestion } = summary;
    if (isExpected !== false || (isQuestion === true && this.#registered.has(decisionId)))
      return taken.events ? "missing" : "not_shown";
    return isQuestion === true && !taken.registrations ? "not_shown" : "not_expected";
  }
}

function wordOf({ outcome = "recorded", unknown_outcome: isUnknown }: RecordSummary): Word {
  const word = eventOutcome(outcome);
  if (isUnknown === true) return "unclear";
  // Without a recorded word the event's type decides.
  if (word === "completed" || outcome === "recorded") return "done";
  return word === "releasing" ? "announced" : word === "unknown" ? "unclear" : "failed";
}

/**
 * Why a decision was made: the policies that decided, or that none permits it. Empty for other records; the outcome of an
 * event is any word of its caller, `denied` too.
 */
export function reasonsOf({ kind, summary = {} }: Pick<FoundRecord, "kind" | "summary">): readonly string[] {
  const { reasons, outcome } = summary;
  return reasons ?? (kind === "decision" && outcome === "denied" ? [nonePermits] : []);
}

/** Values that a record counts for. */
export function countedValues(
  by: Counting,
  { recordedAt }: Pick<FoundRecord, "recordedAt">,
  record: StoredRecord | undefined,
): readonly string[] {
  if (by === "day") return [recordedAt.slice(0, "2026-01-31".length)];
  if (record === undefined) return [];
  const summary = summaryOf(record);
  const { principal, resource, application } = summary;
  if (by === "reason") return [...new Set(reasonsOf({ kind: record.kind, summary }))];
  const value = by === "principal" ? principal : by === "resource" ? resource?.id : application;
  return value === undefined ? [] : [value];
}

/** Counts records by their values. */
export function countOf(records: readonly (readonly string[])[]): Counted {
  return sumOf(records.map((values) => ({ records: 1, values: values.map((value) => ({ value, records: 1 })) })));
}

/** Adds counts. */
export function sumOf(counts: readonly Counted[]): Counted {
  const values = new Map<string, number>();
  for (const { value, records } of counts.flatMap((each) => each.values))
    values.set(value, (values.get(value) ?? 0) + records);
  return {
    records: counts.reduce((sum, { records }) => sum + records, 0),
    values: [...values]
      .map(([value, records]) => ({ value, records }))
      .sort((one, other) => other.records - one.records || (one.value < other.value ? -1 : 1)),
  };
}

function resourceOf({ kind, id }: JsonObject): RecordSummary["resource"] {
  const members = defined({ kind: textOf(kind), id: textOf(id) });
  return Object.keys(members).length === 0 ? undefined : members;
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** Undefined for an empty list, and for none. */
function textsOf(value: unknown): readonly string[] | undefined {
  const texts = Array.isArray(value) ? value.flatMap((item) => textOf(item) ?? []) : [];
  return texts.length === 0 ? undefined : texts;
}
