/** LRU cache of right edges. Put an edge only once its transaction has committed. */
import { LRUCache } from "lru-cache";
import type { TenantId } from "../../base/ids.ts";
import { type LogState, UnsoundLogError } from "../ports/store.ts";
import { RightEdge } from "../tlog/right-edge.ts";
import type { TileReader } from "../tlog/tile-nodes.ts";
import { type Hash, sameHash } from "../tlog/tree.ts";

/** About 32 KiB each. */
const maxEdges = 1024;

interface CachedEdge {
  readonly edge: RightEdge;
  readonly root: Hash;
}

export class EdgeCache {
  readonly #cache = new LRUCache<TenantId, CachedEdge>({ max: maxEdges });

  /**
   * The edge of a log as its head has it, for the caller to change: it is forgotten here until it is put back.
   * Undefined where it is not here.
   */
  take({ tenantId, size, root }: LogState): RightEdge | undefined {
    const cached = this.#cache.get(tenantId);
    this.#cache.delete(tenantId);
    return cached?.edge.size === size && sameHash(cached.root, root) ? cached.edge : undefined;
  }

  /** Keeps an edge whose tree was committed. */
  put(tenantId: TenantId, edge: RightEdge, root: Hash): void {
    this.#cache.set(tenantId, { edge, root });
  }
}

/** Reads the edge of a log from its tiles. Throws `UnsoundLogError` where they do not give the head's root. */
export function loadEdge({ origin, size, root }: LogState, readTile: TileReader): RightEdge {
  let edge: RightEdge;
  try {
    edge = RightEdge.load(size, ({ level, index }) => readTile(level, index));
  } catch (cause) {
    throw new UnsoundLogError(`log ${origin}: the right edge cannot be read`, { cause });
  }
  if (!sameHash(edge.tree().root(), root))
    throw new UnsoundLogError(`log ${origin}: the tiles of the right edge do not give the root of the head`);
  return edge;
}
