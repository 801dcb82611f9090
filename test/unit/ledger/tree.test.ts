/** Trees against the published RFC 6962 vectors, and against the definition written down naively. */
import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RightEdge } from "../../../src/ledger/tlog/right-edge.ts";
import { nodesOfTiles } from "../../../src/ledger/tlog/tile-nodes.ts";
import { hashBytes, leafHash, Tree } from "../../../src/ledger/tlog/tree.ts";
import { verifyConsistency, verifyInclusion } from "../../../src/ledger/tlog/tree-verify.ts";

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");
const fromHex = (text: string) => Buffer.from(text, "hex");

/** Leaves, roots and proofs of the Certificate Transparency test data. */
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
const n01 = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7";
const n23 = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e";
const n47 = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4";
const leaf4 = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b";
const n45 = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a";
const n67 = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0";

function inboundOf(leaves: readonly Uint8Array[]): RightEdge {
  const edge = new RightEdge();
  for (const leaf of leaves) edge.append(leaf);
  return edge;
}

describe("published vectors", () => {
  const leaves = entries.map((entry) => leafHash(fromHex(entry)));
  const treeOf = (size: number) => inboundOf(leaves.slice(0, size)).tree();

  test("roots", () => {
    expect(roots.map((_, size) => hex(treeOf(size).root()))).toEqual(roots);
  });

  test.each([
    [0, 1, []],
    [0, 8, [n01, n23, n47]],
    [5, 8, [leaf4, n67, roots[4]]],
    [2, 3, [roots[2]]],
    [1, 5, [roots[1], n23, leaf4]],
  ])("inclusion of leaf %i in %i", (index, size, path) => {
    expect(treeOf(size).inclusionProof(index).map(hex)).toEqual(path);
  });

  test.each([
    [1, 1, []],
    [1, 8, [n01, n23, n47]],
    [6, 8, [n45, n67, roots[4]]],
    [2, 5, [n23, leaf4]],
  ])("consistency of %i with %i", (first, second, proof) => {
    expect(treeOf(second).consistencyProof(first).map(hex)).toEqual(proof);
  });
});

/** RFC 6962 §2.1, word for word. */
class NaiveTree {
  readonly #leaves: readonly Uint8Array[];
  readonly #roots = new Map<string, Uint8Array>();
  constructor(leaves: readonly Uint8Array[]) {
    this.#leaves = leaves;
  }
  root(begin: number, end: number): Uint8Array {
    if (begin === end) return createHash("sha256").digest();
    if (end - begin === 1) return this.#leaves[begin] as Uint8Array;
    const key = `${begin}-${end}`;
    const middle = begin + 2 ** (Math.ceil(Math.log2(end - begin)) - 1);
    const root =
      this.#roots.get(key) ??
      createHash("sha256").update("\x01").update(this.root(begin, middle)).update(this.root(middle, end)).digest();
    this.#roots.set(key, root);
    return root;
  }
  path(index: number, begin: number, end: number): Uint8Array[] {
    if (end - begin === 1) return [];
    const middle = begin + 2 ** (Math.ceil(Math.log2(end - begin)) - 1);
    return index < middle
      ? [...this.path(index, begin, middle), this.root(middle, end)]
      : [...this.path(index, middle, end), this.root(begin, middle)];
  }
  proof(size: number, begin: number, end: number, isKnown: boolean): Uint8Array[] {
    if (size === end) return isKnown ? [] : [this.root(begin, end)];
    const middle = begin + 2 ** (Math.ceil(Math.log2(end - begin)) - 1);
    return size <= middle
      ? [...this.proof(size, begin, middle, isKnown), this.root(middle, end)]
      : [...this.proof(size, middle, end, false), this.root(begin, middle)];
  }
}

const maxSize = 600;
const leaves = Array.from({ length: maxSize }, (_, index) => leafHash(Buffer.from(`entry ${index}`)));
const naive = new NaiveTree(leaves);

/** Tiles of the whole tree, and what `nodesOfTiles` reads of them. */
function tilesOf(hashes: readonly Uint8Array[]) {
  const edge = inboundOf(hashes);
  const tiles = new Map(edge.takeTouched().map((tile) => [`${tile.level}/${tile.index}`, tile.hashes]));
  return {
    tiles,
    tree: (size: number) =>
      new Tree(
        size,
        nodesOfTiles((level, index) => tiles.get(`${level}/${index}`)),
      ),
  };
}

test("every root of sizes to 600 is the naive one, from the edge and from tiles of a later tree", () => {
  const { tree } = tilesOf(leaves);
  const edge = new RightEdge();
  for (let size = 1; size <= maxSize; size++) {
    edge.append(leaves[size - 1] as Uint8Array);
    expect(hex(edge.tree().root())).toBe(hex(naive.root(0, size)));
    expect(hex(tree(size).root())).toBe(hex(naive.root(0, size)));
  }
});

test("every proof of sizes to 70, and of sizes around tiles, is the naive one and verifies", () => {
  const { tree } = tilesOf(leaves);
  for (const size of [...Array.from({ length: 70 }, (_, index) => index + 1), 255, 256, 257, 511, 512, 513, 600]) {
    const whole = tree(size);
    for (let index = 0; index < size; index++) {
      const path = whole.inclusionProof(index);
      expect(path.map(hex).join()).toBe(naive.path(index, 0, size).map(hex).join());
      expect(verifyInclusion(leaves[index] as Uint8Array, index, size, whole.root(), path)).toBe(true);
      if (index === 0) continue;
      const proof = whole.consistencyProof(index);
      expect(proof.map(hex).join()).toBe(naive.proof(index, 0, size, true).map(hex).join());
      const first = { size: index, root: naive.root(0, index) };
      expect(verifyConsistency(first, { size, root: whole.root() }, proof)).toBe(true);
    }
  }
});

const sizes = fc.tuple(fc.nat(maxSize), fc.nat(maxSize)).map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const);

test("any prefix of the log is consistent with the whole, and with nothing else", () => {
  const { tree } = tilesOf(leaves);
  fc.assert(
    fc.property(sizes, fc.nat(), fc.nat(255), ([first, second], at, flip) => {
      const proof = tree(second).consistencyProof(first);
      const old = { size: first, root: naive.root(0, first) };
      const whole = { size: second, root: naive.root(0, second) };
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

test("a proof of inclusion holds for its leaf, place, size and root only", () => {
  const { tree } = tilesOf(leaves);
  fc.assert(
    fc.property(fc.integer({ min: 2, max: maxSize }), fc.nat(), fc.nat(), (size, which, other) => {
      const index = which % size;
      const leaf = leaves[index] as Uint8Array;
      const root = naive.root(0, size);
      const path = tree(size).inclusionProof(index);
      expect(verifyInclusion(leaf, index, size, root, path)).toBe(true);
      expect(verifyInclusion(leafHash(leaf), index, size, root, path)).toBe(false);
      const elsewhere = other % size;
      if (elsewhere !== index) expect(verifyInclusion(leaf, elsewhere, size, root, path)).toBe(false);
      expect(verifyInclusion(leaf, index, size, naive.root(0, size - 1), path)).toBe(false);
      expect(verifyInclusion(leaf, index, size, root, path.slice(0, -1))).toBe(false);
      expect(verifyInclusion(leaf, index, size, root, [...path, root])).toBe(false);
      expect(verifyInclusion(leaf, index, size, root, [...path.slice(1), new Uint8Array(31)])).toBe(false);
    }),
  );
});

test("an edge that is read back goes on as if it had never stopped", () => {
  const { tiles } = tilesOf(leaves);
  fc.assert(
    fc.property(sizes, ([first, second]) => {
      const edge = RightEdge.load(first, ({ level, index }) => tiles.get(`${level}/${index}`));
      for (const leaf of leaves.slice(first, second)) edge.append(leaf);
      const tree = edge.tree();
      expect(hex(tree.root())).toBe(hex(naive.root(0, second)));
      for (let index = first; index < second; index++)
        expect(tree.inclusionProof(index).map(hex)).toEqual(naive.path(index, 0, second).map(hex));
      const touched = edge.takeTouched();
      expect(
        touched.every(
          ({ level, index, width, hashes }) =>
            hex(tiles.get(`${level}/${index}`)?.subarray(0, width * hashBytes) ?? new Uint8Array()) === hex(hashes),
        ),
      ).toBe(true);
    }),
    { numRuns: 40 },
  );
});

test("an edge whose tile is short is refused", () => {
  const { tiles } = tilesOf(leaves);
  expect(() => RightEdge.load(600, () => undefined)).toThrow("missing or short");
  expect(() => RightEdge.load(600, ({ level, index }) => tiles.get(`${level}/${index}`)?.subarray(32))).toThrow(
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

test("what a tree does not have cannot be proven", () => {
  const tree = inboundOf(leaves.slice(0, 5)).tree();
  for (const index of [-1, 5, 0.5, Number.NaN]) expect(() => tree.inclusionProof(index)).toThrow(RangeError);
  for (const size of [-1, 6, 0.5]) expect(() => tree.consistencyProof(size)).toThrow(RangeError);
  expect(tree.consistencyProof(0)).toEqual([]);
  expect(verifyConsistency({ size: 0, root: leaves[0] as Uint8Array }, { size: 5, root: tree.root() }, [])).toBe(false);
});
