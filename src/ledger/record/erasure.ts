/** The record that says that another was erased. */
import type { Clock } from "../../base/clock.ts";
import {
  isCleanText,
  newRecordId,
  type PrincipalId,
  parseRecordId,
  type RandomFill,
  type RecordId,
  type RequestId,
  type TenantId,
} from "../../base/ids.ts";
import type { RecordKind, StoredRecord } from "../ports/record.ts";
import type { AppendableRecord } from "./record.ts";

/** Kinds that are never erased, and why. */
export const unerasable: Readonly<Partial<Record<RecordKind, string>>> = {
  genesis: "it ties the log to its tenant",
  erasure: "without it nobody can tell an erased record from one that was lost",
  key_rotation: "it says up to where the old key counts",
  anchor_adoption: "it says that nothing outside the store vouched for the log",
  hold_release: "it says since when what was held could be erased",
};

/** What is erased. */
export interface ErasureTarget {
  readonly recordId: RecordId;
  readonly leafIndex: number;
  readonly kind: RecordKind;
  /** Answers that were kept with it. */
  readonly keptAnswers: number;
}

/** Who erases, and why. Both are recorded, and can never be erased. */
export interface ErasureStatement {
  /** The operator's own words. */
  readonly reason: string;
  /** Name of the operator. */
  readonly operator: string;
}

/** A reason is a sentence, not a document. Characters. */
export const maxReasonLength = 1_024;
export const maxOperatorLength = 256;

/** Whether the text may stand in a statement of this length. */
export function isStatementText(text: unknown, maxLength: number): text is string {
  return typeof text === "string" && text.trim() !== "" && text.length <= maxLength && isCleanText(text);
}

export interface ErasureOptions extends ErasureStatement {
  readonly clock: Clock;
  readonly random: RandomFill;
}

export function erasureRecord(
  tenantId: TenantId,
  { recordId: erased, leafIndex, kind, keptAnswers }: ErasureTarget,
  { reason, operator, clock, random }: ErasureOptions,
): AppendableRecord {
  const recordId = newRecordId(clock, random);
  return {
    kind: "erasure",
    recordId,
    tenantId,
    requestId: recordId as string as RequestId,
    caller: { principal_id: operator as PrincipalId, subject: operator, auth_source: "operator" },
    route: "ledger erase",
    request: { record_id: erased, reason },
    outcome: { kind, leaf_index: leafIndex, kept_answers: keptAnswers },
  };
}

/** What a record of kind `erasure` says; undefined where it is none. */
export function readErasure({
  kind,
  request,
  outcome,
}: StoredRecord): Pick<ErasureTarget, "recordId" | "leafIndex"> | undefined {
  if (kind !== "erasure") return undefined;
  const recordId = typeof request.record_id === "string" ? parseRecordId(request.record_id) : undefined;
  const leafIndex = outcome.leaf_index;
  return recordId === undefined || typeof leafIndex !== "number" ? undefined : { recordId, leafIndex };
}
