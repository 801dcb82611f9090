/** Nodes of a tree, read from its tiles. */

import { hashesOnLevel, partialTiles, type TilePlace, tileHeight, tileWidth } from "./tiles.ts";
import { type Hash, hashBytes, type NodeReader, nodeHash } from "./tree.ts";

/** Returns the hashes of a tile, at least those in the tree; undefined if there is none. */
export type TileReader = (level: number, index: number) => Uint8Array | undefined;

/** A required tile is missing or too short. */
export class MissingTileError extends Error {
  override readonly name = "MissingTileError";
}

/** Reads nodes from tiles. Throws `MissingTileError`. */
export function nodesOfTiles(readTile: TileReader): NodeReader {
  return (height, index) => {
    const level = Math.floor(height / tileHeight);
    const count = 2 ** (height % tileHeight);
    const first = index * count;
    const tileIndex = Math.floor(first / tileWidth);
    const begin = (first % tileWidth) * hashBytes;
    const tile = readTile(level, tileIndex);
    if (tile === undefined) throw new MissingTileError(`tile ${tileIndex} of level ${level} is missing`);
    const hashes = tile.subarray(begin, begin + count * hashBytes);
    if (hashes.length < count * hashBytes) throw new MissingTileError(`tile ${tileIndex} of level ${level} is short`);
    return rootOf(hashes);
  };
}

/** Root over a power of two of adjacent hashes. */
export function rootOf(hashes: Uint8Array): Hash {
  if (hashes.length === hashBytes) return hashes;
  const middle = hashes.length / 2;
  return nodeHash(rootOf(hashes.subarray(0, middle)), rootOf(hashes.subarray(middle)));
}

/**
 * Lists the tiles for the root of a tree of this size and, if leaves are given, for their inclusion proofs and for
 * consistency of the trees that end with them. For callers that must fetch tiles in advance.
 */
export function proofTiles(size: number, leafIndices: readonly number[] = []): TilePlace[] {
  const tiles: TilePlace[] = partialTiles(size);
  const known = new Set(tiles.map(({ level, index }) => `${level}/${index}`));
  for (const leafIndex of leafIndices) {
    for (let level = 0, count = size; count > 0; level++, count = hashesOnLevel(level, size)) {
      const index = Math.floor(leafIndex / tileWidth ** (level + 1));
      if (index * tileWidth >= count || known.has(`${level}/${index}`)) continue;
      known.add(`${level}/${index}`);
      tiles.push({ level, index });
    }
  }
  return tiles;
}
