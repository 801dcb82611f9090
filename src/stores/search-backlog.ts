/**
 * What an append adds to the search index of a log. The terms of one record would change pages all over the index: so the
 * newest leaves of a log wait, and get into it as a segment of up to 64 of them. A search looks at each that waits.
 */
import { indexedOf, type LeafRange, StoredTerms } from "../ledger/search/search-index.ts";
import type { IndexedRecord } from "../ledger/search/search-terms.ts";
import { mergeTerms, packTerms, segmentLeaves, type TermRow } from "./term-segment.ts";

/** One time that an index was, or is being, built. */
export interface IndexGeneration {
  readonly generation: number;
  readonly key: Uint8Array;
  /** Leaves before this one are in it. Of one that serves, all others wait. */
  readonly filledTo: number;
}

/** What an index has of a few leaves that stand side by side. */
export interface Segment extends LeafRange {
  readonly generation: number;
  /** Empty if a record could not be opened: any of its leaves may be found by anything. */
  readonly terms: Uint8Array;
}

/** Says under which terms an index has records. */
export class SearchTerms {
  readonly #terms = new StoredTerms();

  rowsOf({ key }: Pick<IndexGeneration, "key">, records: readonly IndexedRecord[]): readonly TermRow[] {
    const stored = this.#terms.under(key);
    return records.flatMap(({ leafIndex, terms }) =>
      indexedOf(terms).map((term) => ({ leafIndex, term: stored(term) })),
    );
  }
}

/** Leaves of which an append reads the records again at most, because others have appended them. */
const leavesReadAgain = 2 * segmentLeaves;

/** What an index gets of the leaves that wait. Of no leaf that was erased since. */
export interface Waiting {
  readonly generation: number;
  /** The first of them. */
  readonly first: number;
  readonly packed: Uint8Array;
}

/** What an append brings to the index. */
export interface AppendedLeaves {
  /** The one that serves; undefined if there is none. */
  readonly index: IndexGeneration | undefined;
  /** Leaves before it and after it. */
  readonly before: number;
  readonly size: number;
  readonly records: readonly IndexedRecord[];
  /** Of the leaves that waited; undefined where that is not known. */
  readonly waiting: Waiting | undefined;
  /** Then what was read again of them: leaves up to and without `end`, of which those that were erased have no record. */
  readonly read: ReadAgain | undefined;
}

/** Records of leaves that waited, from the first on. */
export interface ReadAgain {
  readonly end: number;
  readonly records: readonly IndexedRecord[];
  /** Leaves whose record cannot be opened now, and may be once it is repaired. */
  readonly damaged: readonly number[];
}

/** How far an index is filled now. */
export type IndexMove = Pick<IndexGeneration, "generation" | "filledTo">;

/** What has to be written of it. */
export interface SearchAddition {
  readonly segments: readonly Segment[];
  /** Undefined if the index stays as it is. */
  readonly move: IndexMove | undefined;
  /** Of the leaves that wait now, if that is known. */
  readonly waiting: Waiting | undefined;
}

/** Of the leaves that wait for an index, if that is what is known. */
function packedOf({ generation, filledTo }: IndexGeneration, waiting: Waiting | undefined): Uint8Array | undefined {
  return waiting?.generation === generation && waiting.first === filledTo ? waiting.packed : undefined;
}

/**
 * Where the newest whole segment of a log of this size ends; the first one has 32 leaves at least. Logs that grow together
 * fill theirs at different times.
 */
function lastBoundary({ key }: Pick<IndexGeneration, "key">, size: number): number {
  const offset = segmentLeaves / 2 + ((key[0] ?? 0) % (segmentLeaves / 2));
  return Math.max(0, Math.floor((size - offset) / segmentLeaves) * segmentLeaves + offset);
}

/** The leaves whose records an append of at most so many has to read again; undefined if it needs none. */
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

/** Says what an append adds, inside its transaction, under the lock of the log's head. */
export function additionOf(
  terms: SearchTerms,
  { index, before, size, records, waiting, read }: AppendedLeaves,
): SearchAddition {
  if (index === undefined) return { segments: [], move: undefined, waiting: undefined };
  const { generation, filledTo: first } = index;
  const packed = first === before ? noTerms : packedOf(index, waiting);
  // Of leaves that are not known nothing is added, nor of those behind them.
  const knownTo = packed === undefined ? (read?.end ?? first) : before;
  const isAllKnown = knownTo === before;
  const filledTo = isAllKnown ? Math.max(first, lastBoundary(index, size)) : knownTo;
  const own = isAllKnown ? terms.rowsOf(index, records) : [];
  if (filledTo === first) {
    const longer = packed && { generation, first, packed: Buffer.concat([packed, packTerms(first, own)]) };
    return { segments: [], move: undefined, waiting: longer };
  }
  const all = [...(packed ? [] : terms.rowsOf(index, read?.records ?? [])), ...own];
  const left = all.filter(({ leafIndex }) => leafIndex >= filledTo);
  const damaged = packed === undefined ? (read?.damaged ?? []) : [];
  // A damaged leaf that goes on waiting is read again, too: it may have been repaired by then.
  const isLeftKnown = isAllKnown && !damaged.some((leafIndex) => leafIndex >= filledTo);
  return {
    segments: segmentsOf(index, { first, end: filledTo }, { packed: packed ?? noTerms, rows: all, damaged }),
    move: { generation, filledTo },
    waiting: isLeftKnown ? { generation, first: filledTo, packed: packTerms(filledTo, left) } : undefined,
  };
}

const noTerms = new Uint8Array(0);

/** What is known of leaves. */
interface KnownLeaves {
  /** Of the first of them, which one segment takes. */
  readonly packed?: Uint8Array;
  readonly rows: readonly TermRow[];
  readonly damaged?: readonly number[];
}

/**
 * Segments of leaves of a range, each up to where one ends, or the range. One with a damaged leaf is empty, so that any of
 * its leaves may be found by anything: a leaf that was left out would not be found once it is repaired.
 */
export function segmentsOf(
  index: Pick<IndexGeneration, "generation" | "key">,
  { first, end }: LeafRange,
  { packed = noTerms, rows, damaged = [] }: KnownLeaves,
): readonly Segment[] {
  const segments: Segment[] = [];
  for (let from = first; from < end; ) {
    const to = Math.min(end, lastBoundary(index, from + segmentLeaves));
    const isWithin = (leafIndex: number) => leafIndex >= from && leafIndex < to;
    const isDamaged = damaged.some(isWithin);
    const own = packTerms(from, isDamaged ? [] : rows.filter(({ leafIndex }) => isWithin(leafIndex)));
    const terms = mergeTerms(from === first ? Buffer.concat([packed, own]) : own);
    if (isDamaged || terms.length > 0) segments.push({ first: from, end: to, generation: index.generation, terms });
    from = to;
  }
  return segments;
}
