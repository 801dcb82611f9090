import fc from "fast-check";
import { expect, test } from "vitest";
import { edgeOf, edgeTiles, isUsable } from "../../../src/ledger/append/edge.ts";
import { UnsoundLogError } from "../../../src/ledger/ports/store.ts";
import { RightEdge } from "../../../src/ledger/tlog/right-edge.ts";
import { tileWidth } from "../../../src/ledger/tlog/tiles.ts";
import { leafHash } from "../../../src/ledger/tlog/tree.ts";
import { tenant } from "../../contract/ledger-records.ts";

const alice = tenant("alice");
const leaf = (index: number) => leafHash(Buffer.from(`leaf ${index}`));

/** A log with its stored tiles. */
function logOf(size: number) {
  const edge = new RightEdge();
  const tiles = new Map<string, Uint8Array>();
  for (let index = 0; index < size; index++) {
    edge.append(leaf(index));
    for (const tile of edge.takeTouched()) tiles.set(`${tile.level}/${tile.index}`, Uint8Array.from(tile.hashes));
  }
  const head = { tenantId: alice, origin: "o", size, root: edge.tree().root() };
  return { edge, head, tiles };
}

/** The edge at a head, of a process that remembers another. */
function edgeAfter(before: ReturnType<typeof logOf>, { head, tiles }: ReturnType<typeof logOf>): RightEdge {
  const known = isUsable(before.edge, before.head.root, head) ? before.edge : undefined;
  const read = new Map(
    edgeTiles(head, known).map(({ level, index }) => [`${level}/${index}`, tiles.get(`${level}/${index}`)]),
  );
  return edgeOf(head, known, (level, index) => read.get(`${level}/${index}`));
}

test("an edge that others continued equals one that was present, wherever tiles end", () => {
  const sizes = fc.integer({ min: 1, max: 2 * tileWidth + 2 });
  fc.assert(
    fc.property(sizes, fc.integer({ min: 0, max: tileWidth + 2 }), (size, more) => {
      const [before, after] = [logOf(size), logOf(size + more)];
      const edge = edgeAfter(before, after);
      expect(edge.tree().root()).toEqual(after.head.root);
      for (const one of [edge, after.edge]) one.append(leaf(size + more));
      expect(edge.tree().root()).toEqual(after.edge.tree().root());
      expect(edge.takeTouched()).toEqual(after.edge.takeTouched());
    }),
    {
      numRuns: 25,
      examples: [
        [tileWidth - 1, 1],
        [tileWidth - 1, 2],
        [tileWidth, tileWidth],
        [1, tileWidth + 1],
      ],
    },
  );
});

test.each([3, 5])("an edge of another log of the same tenant is not continued, at %i leaves", (size) => {
  const strange = new RightEdge();
  for (let index = 0; index < 3; index++) strange.append(leaf(100 + index));
  const head = { ...logOf(3).head, root: strange.tree().root() };
  const edge = edgeAfter({ ...logOf(3), edge: strange, head }, logOf(size));
  expect(edge.tree().root()).toEqual(logOf(size).head.root);
});

test("tiles that do not give the head's root make the log unsound", () => {
  const log = logOf(5);
  log.tiles.set("0/0", new Uint8Array(5 * 32));
  expect(() => edgeAfter(logOf(3), log)).toThrow(UnsoundLogError);
});
