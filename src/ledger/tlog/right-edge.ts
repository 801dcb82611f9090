/**
 * The growing edge of a log: the open tile of each level, with all nodes inside it. Appending costs two hashes per
 * leaf, and has every node that proofs of new leaves need.
 */
import type { TileReader } from "./tile-nodes.ts";
import { hashesOnLevel, partialTiles, type TileCoordinate, tileHeight, tileWidth } from "./tiles.ts";
import { type Hash, hashBytes, nodeHash, Tree } from "./tree.ts";

/** A tile with its inner nodes. */
class EdgeTile {
  readonly level: number;
  readonly index: number;
  /** Number of hashes so far. */
  width = 0;
  /** By height above the tile's hashes: 256 hashes, 128 nodes over them, …, 2. */
  readonly #nodes = Array.from(
    { length: tileHeight },
    (_, height) => new Uint8Array((tileWidth >> height) * hashBytes),
  );

  constructor(level: number, index: number) {
    this.level = level;
    this.index = index;
  }

  /** The tile's hashes, which are also its file. */
  get hashes(): Uint8Array {
    return (this.#nodes[0] as Uint8Array).subarray(0, this.width * hashBytes);
  }

  node(height: number, index: number): Hash {
    return (this.#nodes[height] as Uint8Array).subarray(index * hashBytes, (index + 1) * hashBytes);
  }

  /** Adds a hash; returns the tile's root if it is now full. */
  push(hash: Hash): Hash | undefined {
    let node = hash;
    let index = this.width;
    this.width += 1;
    for (let height = 0; height < tileHeight; height++) {
      this.#nodes[height]?.set(node, index * hashBytes);
      if (index % 2 === 0) return undefined;
      node = nodeHash(this.node(height, index - 1), node);
      index = (index - 1) / 2;
    }
    return node;
  }
}

/** A tile to store. */
export interface WrittenTile extends TileCoordinate {
  /** `width` hashes, 32 bytes each. */
  readonly hashes: Uint8Array;
}

export class RightEdge {
  /** Open tiles by level. */
  readonly #open: EdgeTile[] = [];
  /** Tiles that were filled since the last `takeTouched`, and those to their right: proofs may need them. */
  #touched = new Map<string, EdgeTile>();
  #size = 0;

  /**
   * Loads the edge of a stored tree.
   *
   * @throws Error if a tile is missing or short; only the root shows whether the hashes are right
   */
  static load(size: number, readTile: TileReader): RightEdge {
    const edge = new RightEdge();
    for (const { level, index, width } of partialTiles(size)) {
      const hashes = readTile(level, index);
      if (hashes === undefined || hashes.length < width * hashBytes)
        throw new Error(`tile ${index} of level ${level} is missing or short`);
      const open = edge.#tileAt(level, size);
      for (let position = 0; position < width; position++)
        open.push(hashes.subarray(position * hashBytes, (position + 1) * hashBytes));
    }
    edge.#size = size;
    return edge;
  }

  get size(): number {
    return this.#size;
  }

  /** Adds the hash of the next leaf. */
  append(leaf: Hash): void {
    let hash: Hash | undefined = leaf;
    for (let level = 0; hash !== undefined; level++) {
      const tile: EdgeTile = this.#tileAt(level, this.#size);
      this.#touched.set(`${level}/${tile.index}`, tile);
      hash = tile.push(hash);
      if (tile.width === tileWidth) this.#open[level] = new EdgeTile(level, tile.index + 1);
    }
    this.#size += 1;
  }

  /** The current tree: its root, and the proofs of every leaf added since the last `takeTouched`. */
  tree(): Tree {
    return new Tree(this.#size, (height, index) => this.#node(height, index));
  }

  /** Returns the tiles that changed since the last call, after which proofs of earlier leaves are unavailable. */
  takeTouched(): readonly WrittenTile[] {
    const touched = [...this.#touched.values()];
    this.#touched = new Map();
    return touched.map(({ level, index, width, hashes }) => ({ level, index, width, hashes }));
  }

  #tileAt(level: number, size: number): EdgeTile {
    const open = this.#open[level];
    if (open !== undefined) return open;
    const tile = new EdgeTile(level, Math.floor(hashesOnLevel(level, size) / tileWidth));
    this.#open[level] = tile;
    return tile;
  }

  #node(height: number, index: number): Hash {
    const level = Math.floor(height / tileHeight);
    const within = height % tileHeight;
    const perTile = tileWidth >> within;
    const tileIndex = Math.floor(index / perTile);
    const open = this.#open[level];
    const tile = open?.index === tileIndex ? open : this.#touched.get(`${level}/${tileIndex}`);
    if (tile === undefined) throw new RangeError("The node is not at the edge of the tree.");
    return tile.node(within, index % perTile);
  }
}
