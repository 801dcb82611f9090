/** Trees against the published RFC 6962 vectors, and against the definition written down naively. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { GrowingTree, subtreesBetween } from "../../../src/ledger/pack/subtrees.ts";
import { RightEdge } from "../../../src/ledger/tlog/right-edge.ts";
import { type Hash, hashBytes, leafHash } from "../../../src/ledger/tlog/tree.ts";
import { verifyConsistency, verifyInclusion } from "../../../src/ledger/tlog/tree-verify.ts";
import { edgeOf, leaves, maxSize, naivePath, naiveProof, naiveRoot, tilesOf } from "./naive-tree.ts";

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

/** Leaves and roots of the Certificate Transparency test data. */
const entries = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"];
const roots = [
  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
  "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
  "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
  "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
  "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
  "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
  "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
  "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];
test("roots are the published ones", () => {
  const published = entries.map((entry) => leafHash(Buffer.from(entry, "hex")));
  expect(roots.map((_, size) => hex(edgeOf(published.slice(0, size)).tree().root()))).toEqual(roots);
});

const { tiles, tree } = tilesOf(leaves);

test("every root of any size is the naive one, from the edge and from tiles of a later tree", () => {
  const edge = new RightEdge();
  for (let size = 1; size <= maxSize; size++) {
    edge.append(leaves[size - 1] as Uint8Array);
    expect(hex(edge.tree().root())).toBe(hex(naiveRoot(0, size)));
    expect(hex(tree(size).root())).toBe(hex(naiveRoot(0, size)));
  }
});

test("every proof of sizes to 70, and of sizes around tiles, equals a simple computation and verifies", () => {
  for (const size of [...Array.from({ length: 70 }, (_, index) => index + 1), 255, 256, 257, 511, 512, 513, 600]) {
    const whole = tree(size);
    for (let index = 0; index < size; index++) {
      const path = whole.inclusionProof(index);
      expect(path.map(hex).join()).toBe(naivePath(index, 0, size).map(hex).join());
      expect(verifyInclusion(leaves[index] as Uint8Array, index, size, whole.root(), path)).toBe(true);
      if (index === 0) continue;
      const proof = whole.consistencyProof(index);
      expect(proof.map(hex).join()).toBe(naiveProof(index, 0, size, true).map(hex).join());
      const first = { size: index, root: naiveRoot(0, index) };
      expect(verifyConsistency(first, { size, root: whole.root() }, proof)).toBe(true);
    }
  }
});

const sizes = fc.tuple(fc.nat(maxSize), fc.nat(maxSize)).map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const);

test("any prefix of the log is consistent with the whole, and with nothing else", () => {
  fc.assert(
    fc.property(sizes, fc.nat(), fc.nat(255), ([first, second], at, flip) => {
      const proof = tree(second).consistencyProof(first);
      const old = { size: first, root: naiveRoot(0, first) };
      const whole = { size: second, root: naiveRoot(0, second) };
      expect(verifyConsistency(old, whole, proof)).toBe(true);
      const bad = proof.map((hash) => Buffer.from(hash));
      const changed = bad[at % Math.max(bad.length, 1)];
      if (changed === undefined) return;
      changed[at % hashBytes] = (changed[at % hashBytes] as number) ^ (flip || 1);
      expect(verifyConsistency(old, whole, bad)).toBe(false);
      expect(verifyConsistency(old, whole, proof.slice(1))).toBe(false);
      expect(verifyConsistency(old, whole, [...proof, old.root])).toBe(false);
      expect(verifyConsistency({ ...old, root: whole.root }, whole, proof)).toBe(false);
    }),
  );
});

test("a proof of inclusion verifies for its leaf, place, size and root only", () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: maxSize }), fc.nat(), fc.nat(), (size, which, other) => {
      const index = which % size;
      const leaf = leaves[index] as Uint8Array;
      const root = naiveRoot(0, size);
      const path = tree(size).inclusionProof(index);
      expect(verifyInclusion(leaf, index, size, root, path)).toBe(true);
      expect(verifyInclusion(leafHash(leaf), index, size, root, path)).toBe(false);
      const elsewhere = other % size;
      if (elsewhere !== index) expect(verifyInclusion(leaf, elsewhere, size, root, path)).toBe(false);
      expect(verifyInclusion(leaf, index, size, naiveRoot(0, size - 1), path)).toBe(false);
      expect(verifyInclusion(leaf, index, size, root, path.slice(0, -1))).toBe(false);
      expect(verifyInclusion(leaf, index, size, root, [...path, root])).toBe(false);
      expect(verifyInclusion(leaf, index, size, root, [...path.slice(1), new Uint8Array(31)])).toBe(false);
    }),
  );
});

test("an edge with a short tile is refused", () => {
  expect(() => RightEdge.load(maxSize, () => undefined)).toThrow("missing or short");
  expect(() => RightEdge.load(maxSize, (level, index) => tiles.get(`${level}/${index}`)?.subarray(32))).toThrow(
    "short",
  );
});

test("a tree of 70,000 leaves has three levels of tiles, and its proofs verify", () => {
  const many = Array.from({ length: 70_000 }, (_, index) => leafHash(Buffer.from([index >> 16, index >> 8, index])));
  const { tiles, tree } = tilesOf(many);
  const widths = (level: number) =>
    [...tiles].filter(([key]) => key.startsWith(`${level}/`)).map(([, hashes]) => hashes.length / hashBytes);
  expect(widths(0)).toHaveLength(274);
  expect(widths(0).at(-1)).toBe(112);
  expect(widths(1)).toEqual([256, 17]);
  expect(widths(2)).toEqual([1]);
  const whole = tree(70_000);
  for (const index of [0, 255, 256, 65_535, 65_536, 69_999]) {
    const path = whole.inclusionProof(index);
    expect(verifyInclusion(many[index] as Uint8Array, index, 70_000, whole.root(), path)).toBe(true);
  }
  for (const size of [1, 256, 65_535, 65_536, 65_537, 69_999]) {
    const old = { size, root: tree(size).root() };
    const proof = whole.consistencyProof(size);
    expect(verifyConsistency(old, { size: 70_000, root: whole.root() }, proof)).toBe(true);
  }
});

test("a leaf or size outside the tree cannot be proven", () => {
  const tree = edgeOf(leaves.slice(0, 5)).tree();
  for (const index of [-1, 5, 0.5, Number.NaN]) expect(() => tree.inclusionProof(index)).toThrow(RangeError);
  for (const size of [-1, 6, 0.5]) expect(() => tree.consistencyProof(size)).toThrow(RangeError);
  expect(tree.consistencyProof(0)).toEqual([]);
  expect(verifyConsistency({ size: 0, root: leaves[0] as Uint8Array }, { size: 5, root: tree.root() }, [])).toBe(false);
});

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
