/** Report of a verified pack, for machines and for `ledger pack verify`. */
import { formatBase64 } from "../../base/text-forms.ts";
import type { PartOfRange } from "../../ledger/pack/entry-checks.ts";
import { isLinked, isOfValue, selectionMembers } from "../../ledger/pack/format.ts";
import type { VerifiedPack } from "../../ledger/pack/verify.ts";
import type { Cosigned } from "../../ledger/witness/cosignature.ts";
import type { LineageReport } from "./lineage.ts";

/** Entries by what the pack has of them. */
interface Shares {
  readonly records: number;
  readonly erased: number;
  /** Leaves that only show their position and time. */
  readonly leavesOnly: number;
}

/**
 * The report, its members in snake_case for printing. Without a lineage it has no `evidence`, `lineages` and `others`.
 * @param cosigned trusted witnesses that have cosigned the pack's checkpoint
 */
export function packReport(
  pack: VerifiedPack,
  shares: Shares,
  lineage: LineageReport | undefined,
  cosigned: readonly Cosigned[] = [],
) {
  const { checkpoint, verifier, range, part } = pack;
  return {
    log: checkpoint.origin,
    key_id: verifier.keyId,
    tree_size: checkpoint.size,
    root: formatBase64(checkpoint.root),
    witnesses: cosignedMembers(cosigned),
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
    ...(part !== undefined && {
      part: { leaves: part.leaves, first_leaf_index: part.firstLeafIndex, shown: part.shown, closed: part.closed },
    }),
    policies: [...pack.policies].map(([revision, isShown]) => ({ revision, shown: isShown })),
    ...(lineage !== undefined && { evidence: lineage.evidence, lineages: lineage.lineages, others: lineage.others }),
    proven: proven(pack, shares, cosigned),
    not_proven: notProven(pack, shares, cosigned),
  };
}

/** Witnesses in the form that commands print. */
export function cosignedMembers(cosigned: readonly Cosigned[]) {
  return cosigned.map(({ name, keyId, cosignedAt }) => ({ name, key_id: keyId, cosigned_at: cosignedAt }));
}

export type PackReport = ReturnType<typeof packReport>;

function proven(
  { range, part, checkpoint, selection, policies }: VerifiedPack,
  { erased }: Shares,
  cosigned: readonly Cosigned[],
): readonly string[] {
  return [
    `the trusted key signed this log of ${checkpoint.size} leaves`,
    ...(cosigned.length > 0
      ? [
          `trusted witnesses cosigned it, each after a proof that it goes on from all that it had seen: ${cosigned.map(({ name }) => name).join(", ")}`,
        ]
      : []),
    "every leaf stands in it at the index that is given, in this order",
    "every record is exactly the one that its leaf commits to, of this tenant and log",
    ...([...policies.values()].includes(true)
      ? ["every policy text that is shown is the one that the leaf of its decision names"]
      : []),
    ...(erased > 0 ? ["everything said to be erased was erased by a later record of the log, which is shown"] : []),
    ...(range === undefined ? [] : [completeness(range, checkpoint.size)]),
    ...(isOfValue(selection) ? ["every record belongs to the selection"] : []),
    ...(part === undefined ? [] : [partOfRange(part, checkpoint.size)]),
  ];
}

function completeness({ closed }: NonNullable<VerifiedPack["range"]>, size: number): string {
  return closed
    ? "nothing that the log holds of the time range is left out"
    : `nothing that the log held of the time range when it had ${size} leaves is left out: the range reaches beyond the newest leaf, so records of it may have come since`;
}

function partOfRange({ leaves, shown, firstLeafIndex: first = 0, closed }: PartOfRange, size: number): string {
  const since = closed ? "" : `; it reaches beyond the newest of the ${size} leaves, so more may have come since`;
  if (leaves === 0) return `the time range has no leaf${since}`;
  const last = first + leaves - 1;
  return `the time range is leaf ${first} to leaf ${last}, ${leaves} in all: ${shown} of them shown or erased${since}`;
}

function leftOut({ part, selection }: VerifiedPack): readonly string[] {
  if (!isOfValue(selection)) return [];
  if (part === undefined)
    return ["that nothing of the selection is left out: only a time range, or the whole log, shows that"];
  const others = part.leaves - part.shown;
  const doubt = `each leaf of the time range that is not shown (${others}) may be of it`;
  return [
    ...(others > 0
      ? [`that nothing of the selection is left out: ${doubt}; a pack of the whole range shows that`]
      : []),
    ...(isLinked(selection) ? ["that nothing is left out that is linked to the selection at other times"] : []),
  ];
}

function notProven(pack: VerifiedPack, { records }: Shares, cosigned: readonly Cosigned[]): readonly string[] {
  return [
    ...leftOut(pack),
    ...(records === 0 ? ["whose log it is: leaves name no tenant, and no record is shown"] : []),
    "that the records tell the truth, or that everything that happened was recorded",
    "when anything happened: times are the service's clock, and the time of the pack is its maker's word",
    cosigned.length > 0
      ? "that others are shown the same log, unless they ask one of these witnesses"
      : "that others are shown the same log: no trusted witness was given (--witness)",
    ...([...pack.policies.values()].includes(false) ? ["what the policy revisions say that are not shown"] : []),
  ];
}
