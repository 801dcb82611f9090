/** A record as a step in the history of an artifact. */
import type { CheckedEntry } from "../../ledger/pack/entry-checks.ts";
import type { RecordKind } from "../../ledger/ports/record.ts";
import type { RecordSummary } from "../../ledger/ports/search.ts";
import { summaryOf } from "../../ledger/search/summary.ts";

/** Members without a value are absent; those of the summary also if only the leaf is left. */
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
