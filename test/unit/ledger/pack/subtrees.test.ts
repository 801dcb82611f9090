import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { GrowingTree, subtreesBetween } from "../../../../src/ledger/pack/subtrees.ts";
import type { Hash } from "../../../../src/ledger/tlog/tree.ts";
import { leaves, naiveRoot } from "../naive-tree.ts";

const node = (height: number, index: number) => naiveRoot(index * 2 ** height, (index + 1) * 2 ** height);

describe("a tree with some known leaves", () => {
  test("has the root of the whole tree, whichever leaves are known", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 300 }), fc.uniqueArray(fc.nat(299)), (size, chosen) => {
        const tree = new GrowingTree();
        for (const next of [...chosen.filter((index) => index < size).sort((a, b) => a - b), size]) {
          for (const { height, index } of subtreesBetween(tree.size, next)) tree.append(node(height, index), height);
          if (next < size) tree.append(leaves[next] as Hash);
        }
        expect(tree.size).toBe(size);
        expect(Buffer.from(tree.root())).toEqual(Buffer.from(naiveRoot(0, size)));
      }),
    );
  });

  test("accepts no subtree at a place where none begins", () => {
    const tree = new GrowingTree();
    tree.append(leaves[0] as Hash);
    expect(() => tree.append(leaves[1] as Hash, 1)).toThrow(RangeError);
  });

  test("needs few hashes, up to the largest sizes", () => {
    const largest = 2 ** 53 - 1;
    expect([...subtreesBetween(0, largest)]).toHaveLength(53);
    expect([...subtreesBetween(1, largest)]).toHaveLength(104);
    expect([...subtreesBetween(7, 7)]).toEqual([]);
    expect([...subtreesBetween(5, 16)]).toEqual([
      { height: 0, index: 5 },
      { height: 1, index: 3 },
      { height: 3, index: 1 },
    ]);
  });
});
