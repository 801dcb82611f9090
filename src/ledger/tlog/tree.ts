/** Merkle trees (RFC 6962 §2.1), given by size and complete nodes: roots of aligned subtrees of 2^height leaves. */
import { hash } from "node:crypto";

/** A SHA-256 hash: 32 bytes. */
export type Hash = Uint8Array;

export const hashBytes = 32;

/** Returns the root of the complete subtree of leaves `index * 2^height` to `(index + 1) * 2^height - 1`. */
export type NodeReader = (height: number, index: number) => Hash;

const digest = Buffer.alloc(hashBytes);
const digestBytes = new Uint8Array(digest.buffer, digest.byteOffset, hashBytes);

/** Root of the tree without leaves (RFC 6962 §2.1). */
export const emptyRoot: Hash = sha256(new Uint8Array(0));

const leafPrefix = Uint8Array.of(0);
/** One buffer for all node hashes, which one thread computes one after the other. */
const pair = new Uint8Array(1 + 2 * hashBytes);
pair[0] = 1;

/** Hash of a leaf: SHA-256 of 0x00 and the entry. */
export function leafHash(entry: Uint8Array): Hash {
  return sha256(Buffer.concat([leafPrefix, entry]));
}

/** Hash of an inner node: SHA-256 of 0x01 and both children. */
export function nodeHash(left: Hash, right: Hash): Hash {
  pair.set(left, 1);
  pair.set(right, 1 + hashBytes);
  return sha256(pair);
}

/** A typed array on V8's own heap: a Buffer for each hash would cost as much as the hash. */
function sha256(bytes: Uint8Array): Hash {
  digest.write(hash("sha256", bytes, "binary"), "binary");
  return digestBytes.slice();
}

/** Hashes are public, so the comparison need not take constant time. */
export function sameHash(a: Hash, b: Hash): boolean {
  return Buffer.compare(a, b) === 0;
}

/** The largest power of two less than `size`, which is at least 2 (RFC 6962 §2.1, `k`). */
export function splitPoint(size: number): number {
  let power = 1;
  while (power * 2 < size) power *= 2;
  return power;
}

/** A tree of one size, over nodes that may belong to a larger one. Sizes are up to 2^53 - 1. */
export class Tree {
  readonly size: number;
  readonly #node: NodeReader;
  /** Roots of the incomplete ranges at the end of the tree, by their start: proofs share them. */
  readonly #edge = new Map<number, Hash>();

  constructor(size: number, node: NodeReader) {
    this.size = size;
    this.#node = node;
  }

  root(): Hash {
    return this.size === 0 ? emptyRoot : this.range(0, this.size);
  }

  /** Audit path of a leaf (RFC 6962 §2.1.1), from its sibling up. Throws a RangeError if there is no such leaf. */
  inclusionProof(index: number): Hash[] {
    if (!Number.isSafeInteger(index) || index < 0 || index >= this.size) throw new RangeError("no such leaf");
    return this.#beside(index, (begin, end) => end - begin === 1).path;
  }

  /**
   * Roots of the largest subtrees without any of the leaves, from left to right: with the leaves they make the root
   * (docs/reference/ledger-formats.md). For one leaf they are its audit path in another order.
   *
   * @param indices of the leaves, ascending, without duplicates
   * @throws RangeError if the tree has no such leaf, or they are not ascending
   */
  multiProof(indices: readonly number[]): Hash[] {
    const isInOrder = indices.every((index, i) => Number.isSafeInteger(index) && index > (indices[i - 1] ?? -1));
    if (!isInOrder || (indices.at(-1) ?? 0) >= this.size) throw new RangeError("no such leaves");
    const nodes: Hash[] = [];
    // The leaves from `first` to before `next` are those between `begin` and `end`.
    const walk = (begin: number, end: number, first: number, next: number): void => {
      if (first === next) nodes.push(this.range(begin, end));
      if (first === next || next - first === end - begin) return;
      const middle = begin + splitPoint(end - begin);
      let split = first;
      while (split < next && (indices[split] as number) < middle) split += 1;
      walk(begin, middle, first, split);
      walk(middle, end, split, next);
    };
    if (this.size > 0) walk(0, this.size, 0, indices.length);
    return nodes;
  }

  /**
   * Consistency proof from the tree's first `size` leaves to the whole (RFC 6962 §2.1.2). Empty for size 0, which is
   * consistent with every tree, and for the tree itself. Throws a RangeError for a size that it never had.
   */
  consistencyProof(size: number): Hash[] {
    if (!Number.isSafeInteger(size) || size < 0 || size > this.size) throw new RangeError("no such size");
    if (size === 0 || size === this.size) return [];
    const { path, begin, end } = this.#beside(size - 1, (_, end) => end === size);
    // The verifier knows the root of the whole old tree, but not of its parts.
    return begin > 0 ? [this.range(begin, end), ...path] : path;
  }

  /** Roots beside the way from the root to a leaf, from the lowest up, and the range at which the way ends. */
  #beside(index: number, isEnd: (begin: number, end: number) => boolean) {
    const path: Hash[] = [];
    let begin = 0;
    let end = this.size;
    while (!isEnd(begin, end)) {
      const middle = begin + splitPoint(end - begin);
      if (index < middle) {
        path.push(this.range(middle, end));
        end = middle;
      } else {
        path.push(this.range(begin, middle));
        begin = middle;
      }
    }
    return { path: path.reverse(), begin, end };
  }

  /** Root of the leaves from `begin` to `end` - 1, a range from the recursion of RFC 6962. */
  range(begin: number, end: number): Hash {
    const count = end - begin;
    const height = Math.log2(count);
    if (Number.isInteger(height) && 2 ** height === count) return this.#node(height, begin / count);
    const known = end === this.size ? this.#edge.get(begin) : undefined;
    if (known !== undefined) return known;
    const middle = begin + splitPoint(count);
    const root = nodeHash(this.range(begin, middle), this.range(middle, end));
    if (end === this.size) this.#edge.set(begin, root);
    return root;
  }
}
