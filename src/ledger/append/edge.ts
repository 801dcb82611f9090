/** The right edge of a log at its head: one that a process remembers, one that is not far behind, or one from tiles. */
import { type LogState, UnsoundLogError } from "../ports/store.ts";
import { RightEdge } from "../tlog/right-edge.ts";
import type { TileReader } from "../tlog/tile-nodes.ts";
import { partialTiles, type TilePlace, tileWidth } from "../tlog/tiles.ts";
import { type Hash, hashBytes, sameHash } from "../tlog/tree.ts";

/**
 * Whether an edge is that of a log at its head, or a little behind it.
 * @param rootAt root of the edge's tree, if that is as large as the head's
 */
export function isUsable(edge: RightEdge, rootAt: Hash, { size, root }: LogState): boolean {
  const behind = size - edge.size;
  return behind === 0 ? sameHash(rootAt, root) : behind > 0 && behind <= tileWidth;
}

/** Names the tiles that `edgeOf` reads of a log. None if the edge is at the head. */
export function edgeTiles({ size }: LogState, edge: RightEdge | undefined): readonly TilePlace[] {
  if (edge?.size === size) return [];
  const tiles: TilePlace[] = partialTiles(size);
  // The last tile that was partial at the edge is full by now.
  const first = Math.floor((edge?.size ?? size) / tileWidth);
  return first < Math.floor(size / tileWidth) ? [...tiles, { level: 0, index: first }] : tiles;
}

/**
 * Returns the edge of a log at its head, from an edge that is not far behind, or from the log's tiles. Throws
 * `UnsoundLogError` if these do not give the head's root.
 * @param edge a usable edge; changed
 */
export function edgeOf(head: LogState, edge: RightEdge | undefined, readTile: TileReader): RightEdge {
  if (edge?.size === head.size) return edge;
  return (edge && follow(edge, head, readTile)) ?? loadEdge(head, readTile);
}

/** Adds the leaves that others have appended since. Undefined if the result is not the head's root. */
function follow(edge: RightEdge, { size, root }: LogState, readTile: TileReader): RightEdge | undefined {
  for (let leaf = edge.size; leaf < size; leaf++) {
    const first = (leaf % tileWidth) * hashBytes;
    const hash = readTile(0, Math.floor(leaf / tileWidth))?.subarray(first, first + hashBytes);
    if (hash?.length !== hashBytes) return undefined;
    edge.append(hash);
  }
  edge.takeTouched();
  return sameHash(edge.tree().root(), root) ? edge : undefined;
}

/** Reads the edge of a log from its tiles. Throws `UnsoundLogError` if they do not give the head's root. */
function loadEdge({ origin, size, root }: LogState, readTile: TileReader): RightEdge {
  let edge: RightEdge;
  try {
    edge = RightEdge.load(size, readTile);
  } catch (cause) {
    throw new UnsoundLogError(`log ${origin}: the right edge cannot be read`, { cause });
  }
  if (!sameHash(edge.tree().root(), root))
    throw new UnsoundLogError(`log ${origin}: the tiles of the right edge do not give the root of the head`);
  return edge;
}
