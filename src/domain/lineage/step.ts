/** A record as a step in the history of an artifact. */
import { eventOutcome } from "../../base/vocabulary.ts";
import { type CheckedEntry, decisionOf } from "../../ledger/pack/entry-checks.ts";
import type { RecordKind, StoredRecord } from "../../ledger/ports/record.ts";
import { reliedOnIds } from "../registered.ts";
import { evaluationPath, routePath } from "../routes.ts";

/** Members without a value are absent. */
export interface Step {
  readonly leaf_index: number;
  /** RFC 3339, by the service's clock. */
  readonly recorded_at: string;
  readonly kind: RecordKind;
  readonly record_id: string;
  /** True if only the leaf is left. The members below are then absent. */
  readonly erased?: true;
  readonly principal?: string;
  readonly subject?: string;
  /** Operation that was requested or done: `protect`, `access`, `rewrap`, `wrap`, `unwrap`, `deny`. */
  readonly operation?: string;
  /** Decision: `allowed` or `denied`; registration: `accepted` or `refused`; event: its `outcome`. */
  readonly outcome?: string;
  /** True for an event whose `outcome` is not in `eventOutcomes`. */
  readonly unknown_outcome?: true;
  /** Result of the citation when the record was made. */
  readonly citation?: string;
  /** Id of this decision, or of the cited one. */
  readonly decision_id?: string;
  readonly policy_revision?: string;
  /** False for an allowed decision that needs no evidence: a question about policy, or guidance that expects none. */
  readonly expects_evidence?: false;
  /** Decision: ids of the registrations that it relied on. Absent if none were looked up. */
  readonly relied_on?: readonly string[];
  /** Names of the artifact in the record. */
  readonly artifact_digest?: string;
  readonly cids?: readonly string[];
}

const kinds: Readonly<
  Partial<Record<RecordKind, (outcome: Readonly<Record<string, unknown>>, said?: string) => string>>
> = {
  decision: ({ allow }) => (allow === true ? "allowed" : "denied"),
  registration: ({ accepted }) => (accepted === true ? "accepted" : "refused"),
  evidence: (_, said) => said ?? "recorded",
};

/** Returns the step of an entry whose record is shown or erased. */
export function stepOf({ leafIndex, leaf, record }: CheckedEntry): Step {
  const { recorded_at, kind, record_id, policy_revision } = leaf;
  const members = { leaf_index: leafIndex, recorded_at, kind, record_id, ...defined({ policy_revision }) };
  if (record === undefined) return { ...members, erased: true };
  const { request, outcome, caller } = record;
  const cids = new Set([request.artifact_cid, request.artifact_merkle_root_cid, outcome.artifact_cid].filter(isText));
  return {
    ...members,
    ...defined({
      principal: caller.principal_id,
      subject: caller.subject,
      operation: textOf(request.operation) ?? textOf(request.event_type),
      outcome: kinds[kind]?.(outcome, textOf(request.outcome)),
      unknown_outcome:
        kind === "evidence" && eventOutcome(textOf(request.outcome) ?? "completed") === "unknown" ? true : undefined,
      citation: textOf(outcome.citation),
      decision_id: decisionOf(record),
      relied_on: kind === "decision" ? reliedOnIds(outcome) : undefined,
      artifact_digest: textOf(request.artifact_digest),
      expects_evidence: kind === "decision" && outcome.allow === true && !expectsEvidence(record) ? false : undefined,
    }),
    ...(cids.size > 0 && { cids: [...cids] }),
  };
}

/** Routes on which a caller asks what policy permits, without planning an operation. */
const questionRoutes: readonly unknown[] = [routePath("policy-resolve"), evaluationPath];

function expectsEvidence({ route, outcome }: StoredRecord): boolean {
  const { guidance } = outcome;
  const expected =
    typeof guidance === "object" && guidance !== null && "evidence_expected" in guidance
      ? guidance.evidence_expected
      : undefined;
  const isNone = Array.isArray(expected) && expected.length === 0;
  return !isNone && !questionRoutes.includes(route);
}

function defined<Members extends object>(members: Members): { [Name in keyof Members]?: NonNullable<Members[Name]> } {
  const present = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present) as { [Name in keyof Members]?: NonNullable<Members[Name]> };
}

function textOf(value: unknown): string | undefined {
  return isText(value) ? value : undefined;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
