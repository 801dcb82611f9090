/**
 * What an append adds to the search index of a log. The terms of one record would change pages all over the index, so
 * the newest leaves wait, and enter the index as a segment of up to 64. A search reads every waiting leaf.
 */
import { indexedOf, type LeafRange, StoredTerms } from "../../ledger/search/search-index.ts";
import type { IndexedRecord } from "../../ledger/search/search-terms.ts";
import { mergeTerms, packTerms, segmentLeaves, type TermRow } from "./term-segment.ts";

/** One build of an index, complete or under way. */
export interface IndexGeneration {
  readonly generation: number;
  readonly key: Uint8Array;
  /** The index has the leaves before this one. In the index in use, all others wait. */
  readonly filledTo: number;
}

/** Index entries of a few adjacent leaves. */
export interface Segment extends LeafRange {
  readonly generation: number;
  readonly terms: Uint8Array;
}

/** Collects the terms of records. */
export class SearchTerms {
  readonly #terms = new StoredTerms();

  rowsOf({ key }: Pick<IndexGeneration, "key">, records: readonly IndexedRecord[]): readonly TermRow[] {
    const stored = this.#terms.under(key);
    return records.flatMap(({ leafIndex, terms }) =>
      indexedOf(terms).map((term) => ({ leafIndex, term: stored(term) })),
    );
  }
}

/** Bound of the leaves that other processes appended and whose records an append reads again. */
const leavesReadAgain = 2 * segmentLeaves;

/** Terms of the waiting leaves, without those erased since. */
export interface Waiting {
  readonly generation: number;
  readonly first: number;
  readonly packed: Uint8Array;
}

/** The leaves that an append adds to the index. */
export interface AppendedLeaves {
  /** The index in use; undefined if there is none. */
  readonly index: IndexGeneration | undefined;
  /** Size of the log before and after the append. */
  readonly before: number;
  readonly size: number;
  readonly records: readonly IndexedRecord[];
  /** Terms of the leaves that waited; undefined if unknown. */
  readonly waiting: Waiting | undefined;
  /** Records of the following leaves, up to and without `end`; erased and damaged leaves have no record. */
  readonly read: ReadAgain | undefined;
}

/** Records of leaves that waited, from the first on. */
export interface ReadAgain {
  readonly end: number;
  readonly records: readonly IndexedRecord[];
}

export type IndexMove = Pick<IndexGeneration, "generation" | "filledTo">;

/** What has to be written to the index. */
export interface SearchAddition {
  readonly segments: readonly Segment[];
  /** Undefined if the index stays as it is. */
  readonly move: IndexMove | undefined;
  /** Terms of the leaves that wait now, if known. */
  readonly waiting: Waiting | undefined;
}

/** Terms of the leaves that wait for this index, if known. */
function packedOf({ generation, filledTo }: IndexGeneration, waiting: Waiting | undefined): Uint8Array | undefined {
  return waiting?.generation === generation && waiting.first === filledTo ? waiting.packed : undefined;
}

/**
 * Returns the end of the newest whole segment of a log of this size; the first segment has at least 32 leaves. The key
 * varies the ends, so that logs that grow together fill segments at different times.
 */
function lastBoundary({ key }: Pick<IndexGeneration, "key">, size: number): number {
  const offset = segmentLeaves / 2 + ((key[0] ?? 0) % (segmentLeaves / 2));
  return Math.max(0, Math.floor((size - offset) / segmentLeaves) * segmentLeaves + offset);
}

/** Returns the leaves whose records an append must read again; undefined if none. */
export function leavesToRead(
  { index, size, waiting }: { readonly size: number } & Pick<AppendedLeaves, "index" | "waiting">,
  appends: number,
): LeafRange | undefined {
  if (index === undefined) return undefined;
  const first = index.filledTo;
  if (first === size || packedOf(index, waiting) !== undefined || lastBoundary(index, size + appends) <= first)
    return undefined;
  return { first, end: Math.min(size, first + leavesReadAgain) };
}

/** Returns the additions of an append, inside its transaction, under the lock of the log's head. */
export function additionOf(
  terms: SearchTerms,
  { index, before, size, records, waiting, read }: AppendedLeaves,
): SearchAddition {
  if (index === undefined) return { segments: [], move: undefined, waiting: undefined };
  const { generation, filledTo: first } = index;
  const packed = first === before ? noTerms : packedOf(index, waiting);
  // Nothing is added from the first unknown leaf on.
  const knownTo = packed === undefined ? (read?.end ?? first) : before;
  const isAllKnown = knownTo === before;
  const filledTo = isAllKnown ? Math.max(first, lastBoundary(index, size)) : knownTo;
  const own = isAllKnown ? terms.rowsOf(index, records) : [];
  const all = [...(packed ? [] : terms.rowsOf(index, read?.records ?? [])), ...own];
  if (filledTo === first) {
    const longer = Buffer.concat([packed ?? noTerms, packTerms(first, all)]);
    return { segments: [], move: undefined, waiting: isAllKnown ? { generation, first, packed: longer } : undefined };
  }
  const left = all.filter(({ leafIndex }) => leafIndex >= filledTo);
  return {
    segments: segmentsOf(index, { first, end: filledTo }, { packed: packed ?? noTerms, rows: all }),
    move: { generation, filledTo },
    waiting: isAllKnown ? { generation, first: filledTo, packed: packTerms(filledTo, left) } : undefined,
  };
}

const noTerms = new Uint8Array(0);

interface KnownLeaves {
  /** Terms of the first leaves, which go into one segment. */
  readonly packed?: Uint8Array;
  readonly rows: readonly TermRow[];
}

/** Splits leaves of a range into segments. */
export function segmentsOf(
  index: Pick<IndexGeneration, "generation" | "key">,
  { first, end }: LeafRange,
  { packed = noTerms, rows }: KnownLeaves,
): readonly Segment[] {
  const segments: Segment[] = [];
  for (let from = first; from < end; ) {
    const to = Math.min(end, lastBoundary(index, from + segmentLeaves));
    const within = rows.filter(({ leafIndex }) => leafIndex >= from && leafIndex < to);
    const own = packTerms(from, within);
    const terms = mergeTerms(from === first ? Buffer.concat([packed, own]) : own);
    if (terms.length > 0) segments.push({ first: from, end: to, generation: index.generation, terms });
    from = to;
  }
  return segments;
}
