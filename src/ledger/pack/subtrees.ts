/**
 * Roots of trees of which only some leaves are known: complete subtrees cover the leaves in between (compact ranges).
 * Adjacent leaves need no hash between them, so a range of any length in a tree of size m needs only about 2 log m
 * hashes besides its leaves.
 */
import type { StoreArchive } from "../ports/archive.ts";
import type { LogState } from "../ports/store.ts";
import { rootOf } from "../tlog/tile-nodes.ts";
import { tileHeight, tileWidth } from "../tlog/tiles.ts";
import { emptyRoot, type Hash, hashBytes, nodeHash } from "../tlog/tree.ts";
import { PackError } from "./format.ts";

/** The subtree of leaves `index * 2^height` to `(index + 1) * 2^height - 1`. */
interface Subtree {
  readonly height: number;
  readonly index: number;
}

/** The largest complete subtrees that cover the leaves from `begin` to before `end`, from left to right. */
export function* subtreesBetween(begin: number, end: number): Generator<Subtree> {
  for (let next = begin; next < end; ) {
    let height = 0;
    while (next % 2 ** (height + 1) === 0 && next + 2 ** (height + 1) <= end) height += 1;
    yield { height, index: next / 2 ** height };
    next += 2 ** height;
  }
}

/** A tree that grows from left to right by leaves and whole subtrees. Keeps one hash for each bit of its size. */
export class GrowingTree {
  readonly #roots: { readonly height: number; readonly hash: Hash }[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Adds a subtree of 2^height leaves. Throws a RangeError if such a subtree cannot begin here. */
  append(hash: Hash, height = 0): void {
    if (this.#size % 2 ** height !== 0) throw new RangeError("No such subtree begins here.");
    let root = { height, hash };
    for (let left = this.#roots.at(-1); left?.height === root.height; left = this.#roots.at(-1)) {
      root = { height: root.height + 1, hash: nodeHash(left.hash, root.hash) };
      this.#roots.pop();
    }
    this.#roots.push(root);
    this.#size += 2 ** height;
  }

  /** RFC 6962 §2.1. */
  root(): Hash {
    const last = this.#roots.at(-1);
    if (last === undefined) return emptyRoot;
    return this.#roots.slice(0, -1).reduceRight((right, { hash }) => nodeHash(hash, right), last.hash);
  }
}

/**
 * Returns a function that reads the root of a subtree, and rejects with a PackError if its tile is missing or short.
 * Caches the last tile of each level: subtrees are read from left to right.
 */
export function subtreeReader(archive: Pick<StoreArchive, "storedTile">, head: LogState) {
  const newest: { readonly index: number; readonly hashes: Uint8Array | undefined }[] = [];
  const tile = async (level: number, index: number): Promise<Uint8Array | undefined> => {
    const known = newest[level];
    if (known?.index === index) return known.hashes;
    const hashes = await archive.storedTile(head, level, index);
    newest[level] = { index, hashes };
    return hashes;
  };
  return async ({ height, index }: Subtree): Promise<Hash> => {
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
