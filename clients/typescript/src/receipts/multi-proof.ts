/**
 * Multi-proofs: several leaves of one tree (RFC 6962 §2.1), and the roots of the largest subtrees without any of them.
 */
import { hashBytes, hashNode } from "./tree.ts";

/** A leaf of a tree. */
export interface Leaf {
  readonly index: number;
  readonly hash: Uint8Array;
}

/**
 * Root of the tree of this size from the leaves and the nodes, which are used from left to right. Undefined if there
 * are too few or too many nodes, or the leaves do not fit such a tree.
 *
 * @param leaves at least one, ascending, without duplicates
 */
export async function rootOfLeaves(
  leaves: readonly Leaf[],
  size: number,
  nodes: readonly Uint8Array[],
): Promise<Uint8Array | undefined> {
  const isAscending = leaves.every(({ index }, i) => index > (leaves[i - 1]?.index ?? -1));
  const last = leaves.at(-1);
  if (last === undefined || !isAscending || last.index >= size) return undefined;
  if (![...leaves.map(({ hash }) => hash), ...nodes].every(({ length }) => length === hashBytes)) return undefined;
  let taken = 0;
  /**
   * Hash of the leaves from `begin` to `end`, of which those from `first` to `next` are given. Uses its nodes at once.
   */
  const hashOf = (begin: number, end: number, first: number, next: number): Promise<Uint8Array> | undefined => {
    if (first === next) {
      const node = nodes[taken];
      taken += 1;
      return node && Promise.resolve(node);
    }
    if (end - begin === 1) return Promise.resolve((leaves[first] as Leaf).hash);
    const middle = begin + largestPowerBelow(end - begin);
    let split = first;
    while (split < next && (leaves[split] as Leaf).index < middle) split += 1;
    const left = hashOf(begin, middle, first, split);
    const right = hashOf(middle, end, split, next);
    return left && right && Promise.all([left, right]).then(([one, other]) => hashNode(one, other));
  };
  const root = hashOf(0, size, 0, leaves.length);
  return taken === nodes.length ? root : undefined;
}

/** `k` of RFC 6962 §2.1. */
function largestPowerBelow(count: number): number {
  let power = 1;
  while (power * 2 < count) power *= 2;
  return power;
}
