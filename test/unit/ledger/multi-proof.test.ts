/** Multi-proofs of the service, by its tiles, against the definition written down naively and the client's verifier. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { rootOfLeaves } from "../../../clients/typescript/src/receipts/multi-proof.ts";
import { proofTiles } from "../../../src/ledger/tlog/tile-nodes.ts";
import { hashBytes, leafHash, type Tree } from "../../../src/ledger/tlog/tree.ts";
import { draws } from "../../harness/draws.ts";
import { edgeOf, leaves, maxSize, naiveNodes, naiveRoot, tilesOf } from "./naive-tree.ts";

const { tree } = tilesOf(leaves);

/** The tree of this size, by no other tiles than those that a store reads for the leaves. */
function treeOf(size: number, indices: readonly number[]): Tree {
  const known = new Set(proofTiles(size, indices).map(({ level, index }) => `${level}/${index}`));
  return tree(size, (tile) => known.has(tile));
}

const given = (indices: readonly number[]) => indices.map((index) => ({ index, hash: leaves[index] as Uint8Array }));
const hex = (hashes: readonly Uint8Array[]) => hashes.map((hash) => Buffer.from(hash).toString("hex"));
type Proof = Parameters<typeof rootOfLeaves>;
const makes = async (expected: Uint8Array, ...proof: Proof) => {
  const root = await rootOfLeaves(...proof);
  return root !== undefined && Buffer.compare(root, expected) === 0;
};

/** Scattered leaves, and such as stand side by side. */
const drawn = fc.integer({ min: 1, max: maxSize }).chain((size) => {
  const index = fc.nat(size - 1);
  const scattered = fc.uniqueArray(index, { minLength: 1, maxLength: 40 });
  const range = fc
    .tuple(index, index)
    .map(([a, b]) => Array.from({ length: Math.abs(a - b) + 1 }, (_, i) => Math.min(a, b) + i));
  return fc
    .tuple(fc.oneof(scattered, range), scattered)
    .map(([one, other]) => ({ size, indices: [...new Set([...one, ...other])].sort((a, b) => a - b) }));
});

describe("nodes of random leaves of random trees", () => {
  test("equal a simple computation, give the root, and are no more than all audit paths together", async () => {
    await fc.assert(
      fc.asyncProperty(drawn, async ({ size, indices }) => {
        const own = treeOf(size, indices);
        const nodes = own.multiProof(indices);
        expect(hex(nodes)).toEqual(hex(naiveNodes(0, size, new Set(indices))));
        const root = await rootOfLeaves(given(indices), size, nodes);
        expect(hex([root as Uint8Array])).toEqual(hex([naiveRoot(0, size)]));
        const paths = indices.map((index) => own.inclusionProof(index));
        expect(nodes.length).toBeLessThanOrEqual(paths.reduce((sum, path) => sum + path.length, 0));
        const all = new Set(hex(paths.flat()));
        expect(hex(nodes).filter((node) => !all.has(node))).toEqual([]);
      }),
      { numRuns: draws(35, 200) },
    );
  });

  test("do not give the root if anything is changed", async () => {
    await fc.assert(
      fc.asyncProperty(
        drawn,
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        fc.integer({ min: 1, max: maxSize }),
        async ({ size, indices }, at, flip, otherSize) => {
          const nodes = treeOf(size, indices).multiProof(indices);
          const own = given(indices);
          const root = naiveRoot(0, size);
          expect(await makes(root, own, size, nodes)).toBe(true);
          const flipped = (hash: Uint8Array) => hash.map((byte, i) => (i === at % hashBytes ? byte ^ flip : byte));
          const place = at % own.length;
          const replaced = <Item>(list: readonly Item[], i: number, item: Item) => list.with(i, item);
          const chosen = own[place] as { index: number; hash: Uint8Array };
          const refused: [string, Proof][] = [
            ["a leaf", [replaced(own, place, { ...chosen, hash: flipped(chosen.hash) }), size, nodes]],
            ["a shorter hash", [replaced(own, place, { ...chosen, hash: chosen.hash.subarray(1) }), size, nodes]],
            ["a node more", [own, size, [...nodes, leaves[at % maxSize] as Uint8Array]]],
            ["a node more in front", [own, size, [leaves[at % maxSize] as Uint8Array, ...nodes]]],
            ["a leaf less", [own.toSpliced(place, 1), size, nodes]],
            ["a leaf twice", [own.toSpliced(place, 0, chosen), size, nodes]],
            [
              "an index beyond",
              [replaced(own, own.length - 1, { ...(own.at(-1) ?? chosen), index: size }), size, nodes],
            ],
          ];
          if (nodes.length > 0) {
            const node = at % nodes.length;
            refused.push(["a node", [own, size, replaced(nodes, node, flipped(nodes[node] as Uint8Array))]]);
            refused.push(["a node less", [own, size, nodes.toSpliced(node, 1)]]);
          }
          if (nodes.length > 1) refused.push(["the order of nodes", [own, size, nodes.toReversed()]]);
          const index = at % size;
          if (!indices.includes(index)) {
            const elsewhere = own
              .with(0, { index, hash: own[0]?.hash as Uint8Array })
              .sort((a, b) => a.index - b.index);
            refused.push(["a leaf elsewhere", [elsewhere, size, nodes]]);
          }
          const other = own[(place + 1) % own.length] ?? chosen;
          if (other !== chosen) {
            const swapped = own.map((leaf) => {
              if (leaf === chosen) return { ...leaf, hash: other.hash };
              return leaf === other ? { ...leaf, hash: chosen.hash } : leaf;
            });
            refused.push(["leaves in each other's place", [swapped, size, nodes]]);
          }
          for (const [name, proof] of refused) expect(await makes(root, ...proof), name).toBe(false);
          // A tree of another size may take as many nodes for these leaves.
          if (otherSize !== size) expect(await makes(naiveRoot(0, otherSize), own, otherSize, nodes)).toBe(false);
        },
      ),
      { numRuns: draws(50, 300) },
    );
  });
});

test("the reference's test vector equals the tree's result", async () => {
  const document = readFileSync(join(import.meta.dirname, "../../../docs/reference/ledger-formats.md"), "utf8");
  const data = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657"];
  const ofData = data.map((entry) => leafHash(Buffer.from(entry, "hex")));
  const small = edgeOf(ofData).tree();
  const rows = [1, 4, 5].map((index) => [`leaf ${index}`, ofData[index] as Uint8Array] as const);
  const nodes = small.multiProof([1, 4, 5]);
  const named = nodes.map((node, i) => [`node: ${["leaf 0", "leaves 2 and 3", "leaf 6"][i]}`, node] as const);
  const root = small.root();
  const lines = [...rows, ...named, ["root", root] as const].map(
    ([name, hash]) => `| ${name} | \`${Buffer.from(hash).toString("base64")}\` |`,
  );
  expect(document).toContain(lines.join("\n"));
  const given = [1, 4, 5].map((index) => ({ index, hash: ofData[index] as Uint8Array }));
  expect(hex([(await rootOfLeaves(given, 7, nodes)) as Uint8Array])).toEqual(hex([root]));
});
