/** Checks of Merkle proofs, by RFC 9162 §2.1.3.2 and §2.1.4.2, whose trees are those of RFC 6962. */
import { emptyRoot, type Hash, hashBytes, nodeHash, sameHash } from "./tree.ts";

/** Whether the proof shows that the leaf with this hash is at `index` of the tree with this size and root. */
export function verifyInclusion(leaf: Hash, index: number, size: number, root: Hash, proof: readonly Hash[]): boolean {
  if (!isSize(index) || !isSize(size) || index >= size || !areHashes([leaf, root, ...proof])) return false;
  let node = index;
  let last = size - 1;
  let hash = leaf;
  for (const sibling of proof) {
    if (last === 0) return false;
    if (isOdd(node) || node === last) {
      hash = nodeHash(sibling, hash);
      while (!isOdd(node) && node !== 0) {
        node = half(node);
        last = half(last);
      }
    } else {
      hash = nodeHash(hash, sibling);
    }
    node = half(node);
    last = half(last);
  }
  return last === 0 && sameHash(hash, root);
}

/** A tree of a log: number of leaves, and the root over them. */
export interface TreeHead {
  readonly size: number;
  readonly root: Hash;
}

/** Whether the proof shows that the second tree begins with all leaves of the first. */
export function verifyConsistency(first: TreeHead, second: TreeHead, proof: readonly Hash[]): boolean {
  if (!isSize(first.size) || !isSize(second.size) || first.size > second.size) return false;
  if (!areHashes([first.root, second.root, ...proof])) return false;
  if (first.size === second.size) return proof.length === 0 && sameHash(first.root, second.root);
  if (first.size === 0) return proof.length === 0 && sameHash(first.root, emptyRoot);
  const path = isPowerOfTwo(first.size) ? [first.root, ...proof] : proof;
  const [start, ...rest] = path;
  if (start === undefined) return false;
  let node = first.size - 1;
  let last = second.size - 1;
  while (isOdd(node)) {
    node = half(node);
    last = half(last);
  }
  let old = start;
  let whole = start;
  for (const sibling of rest) {
    if (last === 0) return false;
    if (isOdd(node) || node === last) {
      old = nodeHash(sibling, old);
      whole = nodeHash(sibling, whole);
      while (!isOdd(node) && node !== 0) {
        node = half(node);
        last = half(last);
      }
    } else {
      whole = nodeHash(whole, sibling);
    }
    node = half(node);
    last = half(last);
  }
  return last === 0 && sameHash(old, first.root) && sameHash(whole, second.root);
}

// Sizes go up to 2^53 - 1, beyond the range of bit operators.
function half(number: number): number {
  return Math.floor(number / 2);
}

function isOdd(number: number): boolean {
  return number % 2 === 1;
}

function isPowerOfTwo(number: number): boolean {
  return 2 ** Math.round(Math.log2(number)) === number;
}

function isSize(number: number): boolean {
  return Number.isSafeInteger(number) && number >= 0;
}

function areHashes(hashes: readonly Hash[]): boolean {
  return hashes.every(({ length }) => length === hashBytes);
}
