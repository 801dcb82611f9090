/** A tree as RFC 6962 §2.1 defines it, word for word, and the service's own over the tiles of the same leaves. */
import { createHash } from "node:crypto";
import { RightEdge } from "../../../src/ledger/tlog/right-edge.ts";
import { nodesOfTiles } from "../../../src/ledger/tlog/tile-nodes.ts";
import { leafHash, Tree } from "../../../src/ledger/tlog/tree.ts";

export const maxSize = 700;
export const leaves = Array.from({ length: maxSize }, (_, index) => leafHash(Buffer.from(`entry ${index}`)));

const roots = new Map<string, Uint8Array>();
const middleOf = (begin: number, end: number) => begin + 2 ** (Math.ceil(Math.log2(end - begin)) - 1);

/** MTH of the leaves from `begin` up to `end`. */
export function naiveRoot(begin: number, end: number): Uint8Array {
  if (begin === end) return createHash("sha256").digest();
  if (end - begin === 1) return leaves[begin] as Uint8Array;
  const middle = middleOf(begin, end);
  const hash = () =>
    createHash("sha256").update("\x01").update(naiveRoot(begin, middle)).update(naiveRoot(middle, end)).digest();
  const root = roots.get(`${begin}-${end}`) ?? hash();
  roots.set(`${begin}-${end}`, root);
  return root;
}

/** PATH of a leaf. */
export function naivePath(index: number, begin: number, end: number): Uint8Array[] {
  if (end - begin === 1) return [];
  const middle = middleOf(begin, end);
  return index < middle
    ? [...naivePath(index, begin, middle), naiveRoot(middle, end)]
    : [...naivePath(index, middle, end), naiveRoot(begin, middle)];
}

/** SUBPROOF. */
export function naiveProof(size: number, begin: number, end: number, isKnown: boolean): Uint8Array[] {
  if (size === end) return isKnown ? [] : [naiveRoot(begin, end)];
  const middle = middleOf(begin, end);
  return size <= middle
    ? [...naiveProof(size, begin, middle, isKnown), naiveRoot(middle, end)]
    : [...naiveProof(size, middle, end, false), naiveRoot(begin, middle)];
}

/** Roots of the largest subtrees without any of the wanted leaves, from left to right. */
export function naiveNodes(begin: number, end: number, wanted: ReadonlySet<number>): Uint8Array[] {
  const isThere = Array.from({ length: end - begin }, (_, i) => begin + i).some((index) => wanted.has(index));
  if (!isThere) return [naiveRoot(begin, end)];
  if (end - begin === 1) return [];
  const middle = middleOf(begin, end);
  return [...naiveNodes(begin, middle, wanted), ...naiveNodes(middle, end, wanted)];
}

export function edgeOf(hashes: readonly Uint8Array[]): RightEdge {
  const edge = new RightEdge();
  for (const hash of hashes) edge.append(hash);
  return edge;
}

/** Tiles of the whole tree, and trees of any size over those that may be read. */
export function tilesOf(hashes: readonly Uint8Array[]) {
  const tiles = new Map(
    edgeOf(hashes)
      .takeTouched()
      .map((tile) => [`${tile.level}/${tile.index}`, tile.hashes]),
  );
  const tree = (size: number, mayRead = (_tile: string) => true) =>
    new Tree(
      size,
      nodesOfTiles((level, index) => (mayRead(`${level}/${index}`) ? tiles.get(`${level}/${index}`) : undefined)),
    );
  return { tiles, tree };
}
