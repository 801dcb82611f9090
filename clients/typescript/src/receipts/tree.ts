/** Checks of Merkle proofs (RFC 6962 §2.1), by RFC 9162 §2.1.3.2 and §2.1.4.2. Sizes go up to 2^53 - 1. */
import { sameBytes, sha256 } from "./text-forms.ts";

/** Bytes of a SHA-256 hash. */
export const hashBytes = 32;

/** Hash of a leaf: SHA-256 of 0x00 and the entry. */
export function hashLeaf(entry: Uint8Array): Promise<Uint8Array> {
  return sha256(Uint8Array.of(0), entry);
}

/** Hash of an inner node: SHA-256 of 0x01 and both children. */
export function hashNode(left: Uint8Array, right: Uint8Array): Promise<Uint8Array> {
  return sha256(Uint8Array.of(1), left, right);
}

/** Whether the proof shows that the leaf with this hash is at `index` of the tree with this size and root. */
export async function verifyInclusion(
  leaf: Uint8Array,
  index: number,
  size: number,
  root: Uint8Array,
  proof: readonly Uint8Array[],
): Promise<boolean> {
  if (index >= size || !areHashes([leaf, root, ...proof])) return false;
  const [hash] = await climb([leaf], index, size - 1, proof, ([hash = leaf]) => [hash]);
  return hash !== undefined && sameBytes(hash, root);
}

/** A tree of a log: number of leaves, and the root over them. */
export interface TreeHead {
  readonly size: number;
  readonly root: Uint8Array;
}

/** Whether the proof shows that the second tree begins with all leaves of the first. */
export async function verifyConsistency(
  first: TreeHead,
  second: TreeHead,
  proof: readonly Uint8Array[],
): Promise<boolean> {
  if (first.size > second.size || !areHashes([first.root, second.root, ...proof])) return false;
  if (first.size === second.size) return proof.length === 0 && sameBytes(first.root, second.root);
  if (first.size === 0) return proof.length === 0 && sameBytes(first.root, await sha256());
  // A tree that is a complete subtree of the second is not in the proof: its root is known.
  const path = Number.isInteger(Math.log2(first.size)) && isPowerOfTwo(first.size) ? [first.root, ...proof] : proof;
  const [start, ...rest] = path;
  if (start === undefined) return false;
  let node = first.size - 1;
  let last = second.size - 1;
  while (isOdd(node)) {
    node = half(node);
    last = half(last);
  }
  // The first tree has no leaves to its right: there only the second grows.
  const [whole, old] = await climb([start, start], node, last, rest, ([whole = start, old = start], isRight) =>
    isRight ? [whole] : [whole, old],
  );
  return whole !== undefined && old !== undefined && sameBytes(old, first.root) && sameBytes(whole, second.root);
}

/**
 * Hashes the siblings on the way up into each of the hashes; empty if the path does not end at the root. A sibling to
 * the right is hashed only into those that `grow` picks.
 */
async function climb(
  from: readonly Uint8Array[],
  index: number,
  lastIndex: number,
  siblings: readonly Uint8Array[],
  grow: (hashes: readonly Uint8Array[], isRight: boolean) => readonly Uint8Array[],
): Promise<readonly Uint8Array[]> {
  let hashes = from;
  let node = index;
  let last = lastIndex;
  for (const sibling of siblings) {
    if (last === 0) return [];
    if (isOdd(node) || node === last) {
      hashes = await Promise.all(hashes.map((hash) => hashNode(sibling, hash)));
      while (!isOdd(node) && node !== 0) {
        node = half(node);
        last = half(last);
      }
    } else {
      const grown = await Promise.all(grow(hashes, true).map((hash) => hashNode(hash, sibling)));
      hashes = [...grown, ...hashes.slice(grown.length)];
    }
    node = half(node);
    last = half(last);
  }
  return last === 0 ? hashes : [];
}

// Bit operators have only 32 bits.
function half(number: number): number {
  return Math.floor(number / 2);
}

function isOdd(number: number): boolean {
  return number % 2 === 1;
}

function isPowerOfTwo(number: number): boolean {
  return 2 ** Math.round(Math.log2(number)) === number;
}

function areHashes(hashes: readonly Uint8Array[]): boolean {
  return hashes.every(({ length }) => length === hashBytes);
}
