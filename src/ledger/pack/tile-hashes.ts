/** Roots of subtrees, read from the tiles of a stored log. */
import type { AuditedLog } from "../ports/archive.ts";
import { rootOf } from "../tlog/tile-nodes.ts";
import { tileHeight, tileWidth } from "../tlog/tiles.ts";
import { type Hash, hashBytes } from "../tlog/tree.ts";
import { PackError } from "./problem.ts";
import type { Subtree } from "./subtrees.ts";

/** Gives the root of a subtree. Rejects with a PackError where its tile is missing or short. */
export type SubtreeReader = (subtree: Subtree) => Promise<Hash>;

/** Keeps the tile that was read last on each level: subtrees are asked for from left to right. */
export function subtreeReader(log: AuditedLog): SubtreeReader {
  const newest: { readonly index: number; readonly hashes: Uint8Array | undefined }[] = [];
  const tile = async (level: number, index: number): Promise<Uint8Array | undefined> => {
    const known = newest[level];
    if (known?.index === index) return known.hashes;
    const hashes = await log.tile(level, index);
    newest[level] = { index, hashes };
    return hashes;
  };
  return async ({ height, index }) => {
    const level = Math.floor(height / tileHeight);
    const count = 2 ** (height % tileHeight);
    const first = index * count;
    const tileIndex = Math.floor(first / tileWidth);
    const begin = (first % tileWidth) * hashBytes;
    const hashes = (await tile(level, tileIndex))?.subarray(begin, begin + count * hashBytes);
    if (hashes?.length !== count * hashBytes)
      throw new PackError(`tile ${tileIndex} of level ${level} is missing or short: verify the log`);
    return rootOf(hashes);
  };
}
