/**
 * What an append adds to the search indexes of a log. The terms of one record would be rows all over the index: so the
 * newest leaves of a log wait, and get into it as a segment of up to 64 of them. Whoever searches looks at each that waits.
 */
import type { LeafRange } from "../../../ledger/search/search-index.ts";
import type { IndexedRecord } from "../../../ledger/search/search-terms.ts";
import { mergeTerms, packTerms, segmentLeaves, type TermRow } from "../../term-segment.ts";
import { type IndexGeneration, type IndexMove, type IndexRow, openEnd, type SearchTerms } from "./search-index.ts";
import type { Segment } from "./search-segments.ts";

/** Leaves of which an append reads the records again at most, because others have appended them. */
const leavesReadAgain = 2 * segmentLeaves;

/** What an index gets of the leaves that wait. Of no leaf that was erased since. */
export interface Waiting {
  readonly generation: number;
  /** The first of them. */
  readonly first: number;
  readonly packed: Uint8Array;
}

/** What an append brings to the indexes. */
export interface AppendedLeaves {
  readonly indexes: readonly IndexGeneration[];
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

/** What has to be written of it. */
export interface SearchAddition {
  readonly rows: readonly IndexRow[];
  readonly segments: readonly Segment[];
  /** Undefined where the index stays as it is. */
  readonly move: IndexMove | undefined;
  /** Whether leaves wait for the index from now on, which had all of them: then it has no segments. */
  readonly opens: boolean;
  /** Of the leaves that wait now, where that is known. */
  readonly waiting: Waiting | undefined;
}

/** The index that serves: the newest of those that are whole, but for what waits. */
function servingOf(indexes: readonly IndexGeneration[]): IndexGeneration | undefined {
  return indexes.findLast(({ filledTo, fillEnd }) => filledTo === fillEnd || fillEnd === openEnd);
}

/** The first leaf that waits in a log of this size, before anything is appended. */
function firstWaiting({ filledTo, fillEnd }: IndexGeneration, before: number): number {
  return fillEnd === openEnd ? Math.min(filledTo, before) : before;
}

/** Of the leaves of an index that wait from here on, where that is what is known. */
function packedFrom(
  { generation }: IndexGeneration,
  first: number,
  waiting: Waiting | undefined,
): Uint8Array | undefined {
  return waiting?.generation === generation && waiting.first === first ? waiting.packed : undefined;
}

/** Where the newest whole segment of a log of this size ends. Logs that grow together fill theirs at different times. */
function lastBoundary({ key }: IndexGeneration, size: number): number {
  const offset = (key[0] ?? 0) % segmentLeaves;
  return Math.max(0, Math.floor((size - offset) / segmentLeaves) * segmentLeaves + offset);
}

/** The leaves whose records an append of at most so many has to read again; undefined where it needs none. */
export function leavesToRead(
  { indexes, size, waiting }: { readonly size: number } & Pick<AppendedLeaves, "indexes" | "waiting">,
  appends: number,
): LeafRange | undefined {
  const index = servingOf(indexes);
  if (index === undefined) return undefined;
  const first = firstWaiting(index, size);
  if (first === size || packedFrom(index, first, waiting) !== undefined || lastBoundary(index, size + appends) <= first)
    return undefined;
  return { first, end: Math.min(size, first + leavesReadAgain) };
}

/**
 * Says what an append adds, inside its transaction, under the lock of the log's head.
 * @param isSegmented whether the database has segments: otherwise all is in rows
 */
export function additionOf(terms: SearchTerms, appended: AppendedLeaves, isSegmented: boolean): SearchAddition {
  const { indexes, before, size, records } = appended;
  const index = isSegmented ? servingOf(indexes) : undefined;
  // One that is being built has rows: who builds it sees what was there before, and no more.
  const others = indexes.filter((each) => each !== index);
  const rows = terms.rowsOf(others, records);
  if (index === undefined) return { rows, segments: [], move: undefined, opens: false, waiting: undefined };
  const opens = index.fillEnd !== openEnd;
  const first = firstWaiting(index, before);
  const { generation } = index;
  const packed = first === before ? noTerms : packedFrom(index, first, appended.waiting);
  // Of leaves that are not known nothing is added, nor of those behind them.
  const knownTo = packed === undefined ? (appended.read?.end ?? first) : before;
  const isAllKnown = knownTo === before;
  const filledTo = isAllKnown ? Math.max(first, lastBoundary(index, size)) : knownTo;
  const move = opens || filledTo > first ? { generation, filledTo } : undefined;
  const own = isAllKnown ? terms.rowsOf([index], records) : [];
  if (filledTo === first) {
    const waiting = packed && { generation, first, packed: Buffer.concat([packed, packTerms(first, own)]) };
    return { rows, segments: [], move, opens, waiting };
  }
  const known = packed ? [] : terms.rowsOf([index], appended.read?.records ?? []);
  const all = [...known, ...own];
  const left = all.filter(({ leafIndex }) => leafIndex >= filledTo);
  const damaged = packed === undefined ? (appended.read?.damaged ?? []) : [];
  // A damaged leaf that goes on waiting is read again, too: it may have been repaired by then.
  const isLeftKnown = isAllKnown && !damaged.some((leafIndex) => leafIndex >= filledTo);
  return {
    rows,
    segments: segmentsOf(index, { first, end: filledTo }, { packed: packed ?? noTerms, rows: all, damaged }),
    move,
    opens,
    waiting: isLeftKnown ? { generation, first: filledTo, packed: packTerms(filledTo, left) } : undefined,
  };
}

const noTerms = new Uint8Array(0);

/** What is known of leaves. */
interface KnownLeaves {
  /** Of the first of them, which one segment takes. */
  readonly packed: Uint8Array;
  readonly rows: readonly TermRow[];
  readonly damaged: readonly number[];
}

/**
 * Segments of leaves of a range, each up to where one ends, or the range. One with a damaged leaf is empty, so that any of
 * its leaves may be found by anything: nobody would find that leaf again, once it is repaired, where it was left out.
 */
function segmentsOf(
  index: IndexGeneration,
  { first, end }: LeafRange,
  { packed, rows, damaged }: KnownLeaves,
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
