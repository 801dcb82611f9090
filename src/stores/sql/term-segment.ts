/**
 * Index entries of a few adjacent leaves, in one value: each term once, with its leaves. Most terms are in many
 * records, such as the caller, so an entry takes a tenth of a row.
 */
import { storedTermBytes } from "../../ledger/search/search-index.ts";

export interface TermRow {
  readonly leafIndex: number;
  readonly term: Uint8Array;
}

/**
 * The stored terms of a leaf, concatenated. A string in Latin-1, not a Buffer: a small Buffer would keep a whole block
 * of Node's pool in memory.
 */
export interface LeafTerms {
  readonly leafIndex: number;
  readonly terms: string;
}

/** Leaves per segment: a term has one bit for each. */
export const segmentLeaves = 64;
export const bitBytes = segmentLeaves / 8;
/** A term and its bits; the lowest bit is the segment's first leaf. In any order, each term once. */
export const entryBytes = storedTermBytes + bitBytes;

/** Packs the terms of leaves from `firstLeaf` on. */
export function packTerms(firstLeaf: number, leaves: readonly LeafTerms[]): Uint8Array {
  const termsBytes = leaves.reduce((sum, { terms }) => sum + terms.length, 0);
  const packed = Buffer.alloc((termsBytes / storedTermBytes) * entryBytes);
  // Keyed by the number in their first four bytes: numbers are found faster than strings.
  const places = new Map<number, number>();
  for (const { leafIndex, terms: text } of leaves) {
    const terms = Buffer.from(text, "latin1");
    const position = leafIndex - firstLeaf;
    if (position < 0 || position >= segmentLeaves) throw new RangeError(`Leaf ${leafIndex} is not of this segment.`);
    for (let at = 0; at < terms.length; at += storedTermBytes) {
      let name = terms.readInt32BE(at);
      let place = places.get(name);
      // Taken by another term with the same prefix.
      for (; place !== undefined && !isSame(terms, at, packed, place); place = places.get(name)) name += 1;
      if (place === undefined) {
        place = places.size * entryBytes;
        places.set(name, place);
        terms.copy(packed, place, at, at + storedTermBytes);
      }
      const bits = place + storedTermBytes + (position >> 3);
      packed[bits] = (packed[bits] as number) | (1 << (position & 7));
    }
  }
  return packed.subarray(0, places.size * entryBytes);
}

/** Compares word by word: for sixteen bytes, the call of `Buffer.compare` would take longer. */
function isSame(terms: Buffer, at: number, packed: Buffer, place: number): boolean {
  for (let word = 0; word < storedTermBytes; word += 4)
    if (terms.readInt32BE(at + word) !== packed.readInt32BE(place + word)) return false;
  return true;
}

/** Terms to find, by the number in their first four bytes: almost no other term of a segment begins alike. */
export type WantedTerms = ReadonlyMap<number, readonly Uint8Array[]>;

export function wantedTerms(terms: readonly Uint8Array[]): WantedTerms {
  return Map.groupBy(terms, (term) => new DataView(term.buffer, term.byteOffset).getInt32(0));
}

/** Returns the leaves of any of the terms, each once, in order. */
export function leavesOfTerms(firstLeaf: number, packed: Uint8Array, wanted: WantedTerms): readonly number[] {
  const bytes = Buffer.from(packed.buffer, packed.byteOffset, packed.length);
  const leaves = new Set<number>();
  for (let at = 0; at < packed.length; at += entryBytes) {
    const alike = wanted.get(bytes.readInt32BE(at));
    if (alike?.some((term) => bytes.compare(term, 0, storedTermBytes, at, at + storedTermBytes) === 0))
      for (const position of positionsAt(packed, at)) leaves.add(firstLeaf + position);
  }
  return [...leaves].sort((one, other) => one - other);
}

/** Returns all rows, by term. */
export function unpackTerms(firstLeaf: number, packed: Uint8Array): readonly TermRow[] {
  const rows: TermRow[] = [];
  for (let at = 0; at < packed.length; at += entryBytes) {
    const term = packed.slice(at, at + storedTermBytes);
    for (const position of positionsAt(packed, at)) rows.push({ leafIndex: firstLeaf + position, term });
  }
  return rows;
}

/** Returns the segment without some leaves; the same value if it has none of them. */
export function withoutLeaves(firstLeaf: number, packed: Uint8Array, leaves: ReadonlySet<number>): Uint8Array {
  let gone = 0n;
  for (const leafIndex of leaves)
    if (leafIndex >= firstLeaf && leafIndex < firstLeaf + segmentLeaves) gone |= 1n << BigInt(leafIndex - firstLeaf);
  const rest = Buffer.from(packed);
  let [end, isSame] = [0, true];
  for (let at = 0; at < packed.length; at += entryBytes) {
    rest.copyWithin(end, at, at + entryBytes);
    const bits = rest.readBigUInt64LE(end + storedTermBytes);
    const left = bits & ~gone;
    rest.writeBigUInt64LE(left, end + storedTermBytes);
    if (left !== bits) isSame = false;
    // An entry without leaves is overwritten, or cut off.
    if (left !== 0n) end += entryBytes;
  }
  return isSame ? packed : rest.subarray(0, end);
}

/** Returns the positions in the segment of an entry's leaves. */
function positionsAt(packed: Uint8Array, at: number): readonly number[] {
  const positions: number[] = [];
  for (let position = 0; position < segmentLeaves; position++)
    if (((packed[at + storedTermBytes + (position >> 3)] as number) >> (position & 7)) & 1) positions.push(position);
  return positions;
}
