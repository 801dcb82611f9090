/** What is missing in the life of an artifact, or does not fit: what an auditor would ask about. */
import type { Step } from "./step.ts";

export type RemarkCode =
  /** No event cites the decision and matches it. */
  | "allowed_not_evidenced"
  /** An event other than `deny` cites a decision that denied. */
  | "event_after_denial"
  /** The registration cites no decision, or one that did not match. */
  | "registered_without_decision"
  /** The event cites no decision, or one that did not match. */
  | "event_without_decision"
  /** No registration of the artifact was accepted before the event. */
  | "event_without_registration"
  /** The record's citation matched, and the decision is not in the pack. */
  | "decision_not_shown"
  /** The decision was erased. */
  | "decision_erased";

export interface Remark {
  readonly code: RemarkCode;
  /** The record that it is about. */
  readonly leaf_index: number;
  readonly message: string;
}

/** Remarks on the steps of one artifact, in their order. Only what is in the pack is known. */
export function remarksOn(steps: readonly Step[], decisions: ReadonlyMap<string, Step>): readonly Remark[] {
  return steps.flatMap((step) => {
    switch (step.kind) {
      case "decision":
        return onDecision(step, steps);
      case "registration":
        return [...onCitation(step, decisions, "registered_without_decision")];
      case "evidence":
        return [...onCitation(step, decisions, "event_without_decision"), ...onEvent(step, steps)];
      default:
        return [];
    }
  });
}

function onDecision(decision: Step, steps: readonly Step[]): readonly Remark[] {
  if (decision.outcome !== "allowed") return [];
  const isEvidenced = steps.some(
    ({ kind, decision_id, citation }) =>
      kind === "evidence" && decision_id === decision.record_id && citation === "matched",
  );
  return isEvidenced ? [] : [remark("allowed_not_evidenced", decision, "allowed, and never evidenced")];
}

function onCitation(step: Step, decisions: ReadonlyMap<string, Step>, code: RemarkCode): readonly Remark[] {
  const { decision_id: id, citation = "none" } = step;
  const decision = id === undefined ? undefined : decisions.get(id);
  if (decision?.erased === true) return [remark("decision_erased", step, `the decision ${id} was erased`)];
  if (decision?.outcome === "denied" && !(step.kind === "evidence" && step.operation === "deny"))
    return [remark("event_after_denial", step, `happened after the decision ${id} denied it`)];
  if (citation !== "matched") {
    const cited = id === undefined ? "cites no decision" : `cites ${id}, which did not match: ${citation}`;
    return [remark(code, step, cited)];
  }
  if (decision === undefined) return [remark("decision_not_shown", step, `the decision ${id} is not in the pack`)];
  return [];
}

function onEvent(event: Step, steps: readonly Step[]): readonly Remark[] {
  const namesArtifact = event.artifact_digest !== undefined || event.cids !== undefined;
  if (event.operation === "deny" || !namesArtifact) return [];
  const isRegistered = steps.some(
    ({ kind, outcome, leaf_index }) =>
      kind === "registration" && outcome === "accepted" && leaf_index < event.leaf_index,
  );
  return isRegistered
    ? []
    : [remark("event_without_registration", event, "no registration of the artifact was accepted before it")];
}

function remark(code: RemarkCode, { leaf_index }: Step, message: string): Remark {
  return { code, leaf_index, message };
}
