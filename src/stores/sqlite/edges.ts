/** Right edges of the logs that were written to last. Only a commit makes what is here true. */
import { LRUCache } from "lru-cache";
import type { TenantId } from "../../base/ids.ts";
import { RightEdge } from "../../ledger/right-edge.ts";
import { UnsoundLogError } from "../../ledger/store.ts";
import { type Hash, sameHash } from "../../ledger/tree.ts";
import type { LogRows, StoredHead } from "./log-rows.ts";

/** About 32 KiB each. */
const maxEdges = 1024;

interface KeptEdge {
  readonly edge: RightEdge;
  readonly root: Hash;
}

export class Edges {
  readonly #rows: LogRows;
  readonly #kept = new LRUCache<TenantId, KeptEdge>({ max: maxEdges });

  constructor(rows: LogRows) {
    this.#rows = rows;
  }

  /**
   * The edge of a log as its head has it, for the caller to change: it is forgotten here until it is put back. Throws
   * `UnsoundLogError` where the tiles do not give the head's root.
   */
  take(head: StoredHead): RightEdge {
    const kept = this.#kept.get(head.tenantId);
    this.#kept.delete(head.tenantId);
    const isCurrent = kept?.edge.size === head.size && sameHash(kept.root, head.root);
    return isCurrent ? kept.edge : this.#load(head);
  }

  /** Keeps an edge whose tree was committed. */
  put(tenantId: TenantId, edge: RightEdge, root: Hash): void {
    this.#kept.set(tenantId, { edge, root });
  }

  #load({ tenantId, origin, size, root }: StoredHead): RightEdge {
    let edge: RightEdge;
    try {
      edge = RightEdge.load(size, ({ level, index }) => this.#rows.tile(tenantId, level, index));
    } catch (cause) {
      throw new UnsoundLogError(`log ${origin}: the right edge cannot be read`, { cause });
    }
    if (!sameHash(edge.tree().root(), root))
      throw new UnsoundLogError(`log ${origin}: the tiles of the right edge do not give the root of the head`);
    return edge;
  }
}
