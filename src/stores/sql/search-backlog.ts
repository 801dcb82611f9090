/**
 * Additions of an append to the search index of a log. The terms of one record would change pages all over the index,
 * so the newest leaves wait, and enter the index as a segment of up to 64. A search reads every waiting leaf.
 */
import { indexedOf, type LeafRange, StoredTerms } from "../../ledger/search/search-index.ts";
import type { IndexedRecord } from "../../ledger/search/search-terms.ts";
import { sameHash } from "../../ledger/tlog/tree.ts";
import { type LeafTerms, packTerms, segmentLeaves } from "./term-segment.ts";

/** The search index of a log. */
export interface SearchIndex {
  readonly key: Uint8Array;
  /** The index has the leaves before this one. All others wait. */
  readonly filledTo: number;
}

/** Index entries of a few adjacent leaves. */
export interface Segment extends LeafRange {
  readonly terms: Uint8Array;
}

/** Computes the stored terms of records. */
export class SearchTerms {
  readonly #terms = new StoredTerms();

  of({ key }: Pick<SearchIndex, "key">, records: readonly IndexedRecord[]): readonly LeafTerms[] {
    const stored = this.#terms.under(key);
    return records.map(({ leafIndex, terms }) => {
      const bytes = Buffer.concat(indexedOf(terms).map(stored));
      return { leafIndex, terms: bytes.toString("latin1") };
    });
  }
}

/** Bound of the leaves that other processes appended and whose records an append reads again. */
const leavesReadAgain = 2 * segmentLeaves;

/** Terms of the waiting leaves, without those erased since. */
export interface Waiting {
  /** Of the index. */
  readonly key: Uint8Array;
  readonly first: number;
  readonly leaves: readonly LeafTerms[];
}

/** The leaves that an append adds to the index. */
export interface AppendedLeaves {
  /** Undefined if there is none. */
  readonly index: SearchIndex | undefined;
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

/** Changes to write to the index. */
export interface SearchAddition {
  readonly segments: readonly Segment[];
  /** The index has the leaves before this one then; undefined if it stays as it is. */
  readonly filledTo: number | undefined;
  /** Terms of the leaves that wait now, if known. */
  readonly waiting: Waiting | undefined;
}

/** Terms of the leaves that wait for this index, if known. */
function knownOf({ key, filledTo }: SearchIndex, waiting: Waiting | undefined) {
  return waiting?.first === filledTo && sameHash(waiting.key, key) ? waiting.leaves : undefined;
}

/**
 * Returns the end of the newest whole segment of a log of this size; the first segment has at least 32 leaves. The key
 * varies the ends, so that logs that grow together fill segments at different times.
 */
export function lastBoundary({ key }: Pick<SearchIndex, "key">, size: number): number {
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
  if (first === size || knownOf(index, waiting) !== undefined || lastBoundary(index, size + appends) <= first)
    return undefined;
  return { first, end: Math.min(size, first + leavesReadAgain) };
}

/** Returns the additions of an append, inside its transaction, under the lock of the log's head. */
export function additionOf(
  terms: SearchTerms,
  { index, before, size, records, waiting, read }: AppendedLeaves,
): SearchAddition {
  if (index === undefined) return { segments: [], filledTo: undefined, waiting: undefined };
  const { key, filledTo: first } = index;
  const known = first === before ? [] : knownOf(index, waiting);
  // Nothing is added from the first unknown leaf on.
  const knownTo = known === undefined ? (read?.end ?? first) : before;
  const isAllKnown = knownTo === before;
  const filledTo = isAllKnown ? Math.max(first, lastBoundary(index, size)) : knownTo;
  const leaves = [...(known ?? terms.of(index, read?.records ?? [])), ...(isAllKnown ? terms.of(index, records) : [])];
  const left = leaves.filter(({ leafIndex }) => leafIndex >= filledTo);
  return {
    segments: segmentsOf(index, { first, end: filledTo }, leaves),
    filledTo: filledTo === first ? undefined : filledTo,
    // A row's key may be of the pool.
    waiting: isAllKnown ? { key: new Uint8Array(key), first: filledTo, leaves: left } : undefined,
  };
}

/** Splits leaves of a range into segments. */
export function segmentsOf(
  index: Pick<SearchIndex, "key">,
  { first, end }: LeafRange,
  leaves: readonly LeafTerms[],
): readonly Segment[] {
  const segments: Segment[] = [];
  for (let from = first; from < end; ) {
    const to = Math.min(end, lastBoundary(index, from + segmentLeaves));
    const terms = packTerms(
      from,
      leaves.filter(({ leafIndex }) => leafIndex >= from && leafIndex < to),
    );
    if (terms.length > 0) segments.push({ first: from, end: to, terms });
    from = to;
  }
  return segments;
}
