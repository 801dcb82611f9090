/** What a verified pack tells: for machines as it is, for people in `ledger pack verify`. */
import { formatBase64 } from "../text-forms.ts";
import type { LineageReport } from "./lineage.ts";
import { isTimeRange, selectionMembers } from "./selection.ts";
import type { VerifiedPack } from "./verify.ts";

/** Counts of entries by what is shown of them. */
export interface Shares {
  readonly records: number;
  readonly erased: number;
  /** Leaves that are shown for their place and time alone. */
  readonly leavesOnly: number;
}

/** The report, its members in snake_case as they are printed. Without a lineage it has no `lineages` and `others`. */
export function packReport(pack: VerifiedPack, shares: Shares, lineage: LineageReport | undefined) {
  const { checkpoint, verifier, range } = pack;
  return {
    log: checkpoint.origin,
    key_id: verifier.keyId,
    tree_size: checkpoint.size,
    root: formatBase64(checkpoint.root),
    tenant_id: pack.tenantId,
    newest_recorded_at: pack.newestRecordedAt,
    made_at: pack.madeAt,
    selection: selectionMembers(pack.selection),
    records: shares.records,
    erased: shares.erased,
    leaves_only: shares.leavesOnly,
    complete: range !== undefined,
    ...(range !== undefined && {
      range: { leaves: range.leaves, first_leaf_index: range.firstLeafIndex, closed: range.closed },
    }),
    policies: [...pack.policies].map(([revision, isShown]) => ({ revision, shown: isShown })),
    ...(lineage !== undefined && { lineages: lineage.lineages, others: lineage.others }),
    proven: proven(pack, shares),
    not_proven: notProven(pack),
  };
}

export type PackReport = ReturnType<typeof packReport>;

function proven({ range, checkpoint, selection, policies }: VerifiedPack, { erased }: Shares): readonly string[] {
  return [
    `the trusted key signed this log of ${checkpoint.size} leaves`,
    "every leaf stands in it at the index that is given, in this order",
    "every record is exactly the one that its leaf commits to, of this tenant and log",
    ...([...policies.values()].includes(true)
      ? ["every policy text that is shown is the one that the leaf of its decision names"]
      : []),
    ...(erased > 0 ? ["everything said to be erased was erased by a later record of the log, which is shown"] : []),
    ...(range === undefined ? [] : [completeness(range, checkpoint.size)]),
    ...(isTimeRange(selection) ? [] : ["every record has to do with the selection"]),
  ];
}

function completeness({ closed }: NonNullable<VerifiedPack["range"]>, size: number): string {
  return closed
    ? "nothing that the log holds of the time range is left out"
    : `nothing that the log held of the time range when it had ${size} leaves is left out: the range reaches beyond the newest leaf, so records of it may have come since`;
}

function notProven({ range, policies }: VerifiedPack): readonly string[] {
  return [
    ...(range === undefined
      ? ["that nothing of the selection is left out: only a time range, or the whole log, shows that"]
      : []),
    "that the records tell the truth, or that everything that happened was recorded",
    "when anything happened: times are the service's clock, and the time of the pack is its maker's word",
    "that everybody is shown the same log, unless witnesses have signed it too",
    ...([...policies.values()].includes(false) ? ["what the policy revisions say that are not shown"] : []),
  ];
}
