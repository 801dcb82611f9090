/**
 * Gaps and contradictions in the history of an artifact that an auditor would ask about. A remark states only what the
 * pack shows: if records outside of it could explain a gap, it says so.
 * docs/reference/ledger-formats.md defines the words.
 */
import { eventOutcomes } from "../../base/vocabulary.ts";
import type { CheckedEntry, CompleteRange } from "../../ledger/pack/entry-checks.ts";
import type { RecordKind } from "../../ledger/ports/record.ts";
import type { RecordSummary } from "../../ledger/ports/search.ts";
import { ArrivedEvidence, summaryOf } from "../../ledger/search/summary.ts";

/** A record in the history of an artifact. Members without a value are absent; those of the summary also if only the leaf is left. */
export interface Step extends RecordSummary {
  readonly leaf_index: number;
  /** RFC 3339, by the service's clock. */
  readonly recorded_at: string;
  readonly kind: RecordKind;
  readonly record_id: string;
  /** True if only the leaf is left. */
  readonly erased?: true;
  readonly policy_revision?: string;
}

/** Returns the step of an entry whose record is shown or erased. */
export function stepOf({ leafIndex, leaf, record }: CheckedEntry): Step {
  const { recorded_at, kind, record_id, policy_revision } = leaf;
  const members = { leaf_index: leafIndex, recorded_at, kind, record_id };
  const step = policy_revision === undefined ? members : { ...members, policy_revision };
  return record === undefined ? { ...step, erased: true } : { ...step, ...summaryOf(record) };
}

type RemarkCode =
  /** No event evidences the decision, and the pack proves that: it has everything since, with nothing erased. */
  | "allowed_not_evidenced"
  /** No event in the pack evidences the decision; others may. */
  | "allowed_evidence_not_shown"
  /** All events that cite the decision and match it report a failure. */
  | "allowed_evidence_failed"
  /** No event that cites the decision and matches it says that it was done, and not all report a failure. */
  | "allowed_outcome_unknown"
  /** The event's outcome is not in the vocabulary. */
  | "unknown_outcome"
  /** An event other than `deny` cites a decision that denied. */
  | "event_after_denial"
  | "registration_refused"
  /** The registration cites no decision, or one that did not match. */
  | "registered_without_decision"
  /** The event cites no decision, or one that did not match. */
  | "event_without_decision"
  /** No accepted registration of the artifact is shown before the event. */
  | "event_without_registration"
  /** The record's citation matched, and the decision is not in the pack. */
  | "decision_not_shown"
  | "decision_erased";

export interface Remark {
  readonly code: RemarkCode;
  /** Leaf of the record that the remark is about. */
  readonly leaf_index: number;
  readonly message: string;
}

/** Kinds of records that cite a decision. */
type Citing = "evidence" | "registration";

/** Facts of the whole pack. They do not depend on the artifact, so lineages cannot disagree. */
export class PackFacts {
  readonly #decisions = new Map<string, Step>();
  readonly #arrived = new ArrivedEvidence();
  /** Leaf of the last erased record of a kind; its citation is lost. */
  readonly #lastErased = { evidence: -1, registration: -1 };
  readonly #range: CompleteRange | undefined;

  /** @param range undefined for a selection by value, which is not known to be complete */
  constructor(steps: readonly Step[], range: CompleteRange | undefined) {
    this.#range = range;
    for (const step of steps) this.#take(step);
  }

  /** Returns the decision with this id, erased or not; undefined if the pack does not have it. */
  decision(id: string | undefined): Step | undefined {
    return id === undefined ? undefined : this.#decisions.get(id);
  }

  /** An allowed decision with what arrived of its evidence; any other step unchanged. */
  withEvidence(step: Step): Step {
    if (step.kind !== "decision" || step.outcome !== "allowed") return step;
    const isTaken = (kind: Citing) => this.#unseen(kind, step.leaf_index) === undefined;
    const taken = { events: isTaken("evidence"), registrations: isTaken("registration") };
    const told = { ...step, evidence: this.#arrived.of(step.record_id, step, taken) };
    this.#decisions.set(step.record_id, told);
    return told;
  }

  /** Remarks on the evidence of an allowed decision; none if it is evidenced, or needs no evidence. */
  onAllowed(decision: Step): readonly Remark[] {
    const { evidence: code = "not_expected" } = decision;
    if (code === "evidenced" || code === "not_expected") return [];
    if (code === "not_shown") {
      const gap = this.#unseen("evidence", decision.leaf_index) ?? this.#unseen("registration", decision.leaf_index);
      return [remark("allowed_evidence_not_shown", decision, `allowed; no event shown evidences it, but ${gap}`)];
    }
    const [named, message] = onEvidence[code];
    return [remark(named, decision, message)];
  }

  /** Why a record that cites this leaf may exist outside the pack; undefined if none can. */
  #unseen(kind: Citing, leafIndex: number): string | undefined {
    if (this.#range === undefined) return "only a time range would show all events";
    if (this.#lastErased[kind] > leafIndex)
      return kind === "evidence"
        ? "an event after it was erased, and may have"
        : "a registration after it was erased, and may have been made under it";
    return this.#range.closed ? "the range ends before the log does" : undefined;
  }

  #take(step: Step): void {
    if (step.kind === "decision") this.#decisions.set(step.record_id, step);
    if ((step.kind === "evidence" || step.kind === "registration") && step.erased === true)
      this.#lastErased[step.kind] = step.leaf_index;
    this.#arrived.take(step.kind, step);
  }
}

const onEvidence = {
  failed: ["allowed_evidence_failed", "allowed; every event shown that matches it reports a failure"],
  outcome_unknown: ["allowed_outcome_unknown", "allowed; no event shown that matches it says that it was done"],
  missing: ["allowed_not_evidenced", "allowed, and no event of the log evidences it so far"],
} as const;

/** Remarks on the steps of one artifact, in order. Takes linear time. */
export function remarksOn(steps: readonly Step[], facts: PackFacts): readonly Remark[] {
  const registered = steps.find(({ kind, outcome }) => kind === "registration" && outcome === "accepted");
  const registeredAt = registered?.leaf_index ?? Number.POSITIVE_INFINITY;
  return steps.flatMap((step) => {
    switch (step.kind) {
      case "decision":
        return step.outcome === "allowed" ? facts.onAllowed(step) : [];
      case "registration":
        return onCitation(step, facts, "registered_without_decision");
      case "evidence":
        return [
          ...onCitation(step, facts, "event_without_decision"),
          ...onEvent(step, registeredAt),
          ...(step.unknown_outcome === true
            ? [remark("unknown_outcome", step, `its outcome is not one of ${eventOutcomes.join(", ")}`)]
            : []),
        ];
      default:
        return [];
    }
  });
}

function onCitation(step: Step, facts: PackFacts, code: RemarkCode): readonly Remark[] {
  const { decision_id: id, citation = "none", kind } = step;
  if (kind === "registration" && step.outcome === "refused")
    return [remark("registration_refused", step, `was refused: ${cites(id, citation)}`)];
  const decision = facts.decision(id);
  if (decision?.erased === true) return [remark("decision_erased", step, `the decision ${id} was erased`)];
  if (decision?.outcome === "denied" && !(kind === "evidence" && step.operation === "deny"))
    return [remark("event_after_denial", step, `recorded although the decision ${id} denied it`)];
  if (citation !== "matched") return [remark(code, step, cites(id, citation))];
  if (decision === undefined) return [remark("decision_not_shown", step, `the decision ${id} is not in the pack`)];
  return [];
}

function cites(id: string | undefined, citation: string): string {
  return id === undefined ? "cites no decision" : `cites ${id}, which did not match: ${citation}`;
}

function onEvent(event: Step, registeredAt: number): readonly Remark[] {
  const namesArtifact = event.artifact_digest !== undefined || event.cids !== undefined;
  if (event.operation === "deny" || !namesArtifact || registeredAt < event.leaf_index) return [];
  return [remark("event_without_registration", event, "no accepted registration of the artifact is shown before it")];
}

function remark(code: RemarkCode, { leaf_index }: Step, message: string): Remark {
  return { code, leaf_index, message };
}
