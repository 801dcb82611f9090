/**
 * Cache of logs in the writer's connection. An append reads only what another connection may have changed: the
 * connection's own commits are valid until another connection commits.
 */
import { LRUCache } from "lru-cache";
import type { TenantId } from "../../base/ids.ts";
import type { RightEdge } from "../../ledger/tlog/right-edge.ts";
import { sameHash } from "../../ledger/tlog/tree.ts";
import type { LogIndex } from "../sql/add-records.ts";
import type { StoredHead } from "../sql/log-rows.ts";

/** The search index of a log, as an append leaves it. */
export type SearchState = Omit<LogIndex, "read">;

export interface KnownLog {
  readonly head: StoredHead;
  readonly edge: RightEdge;
  readonly search: SearchState;
}

/** Bound of the remembered logs, about 50 KiB each. */
const maxLogs = 1_024;

export class KnownLogs {
  readonly #logs = new LRUCache<TenantId, KnownLog & { readonly version: string }>({ max: maxLogs });
  /** As the current transaction has left them. */
  #pending = new Map<TenantId, KnownLog>();
  /** Version of store and anchor in the current transaction; undefined if unknown. */
  #version: string | undefined;

  /**
   * Must be called when a transaction has begun.
   * @param version of the contents of store and anchor; commits of other connections change it
   */
  begin(version: string): void {
    this.#version = version;
    this.#pending = new Map();
  }

  /** Must be called when the transaction has ended, with whether it was committed and anchored. */
  end(isCommitted: boolean): void {
    const version = this.#version;
    if (isCommitted && version !== undefined)
      for (const [tenantId, log] of this.#pending) this.#logs.set(tenantId, { ...log, version });
    // A cleared Map would keep them alive: see `OpenAnswers`.
    this.#pending = new Map();
    this.#version = undefined;
  }

  /** Returns a log that needs no further read in this transaction. */
  current(tenantId: TenantId): KnownLog | undefined {
    const pending = this.#pending.get(tenantId);
    if (pending !== undefined) return pending;
    const known = this.#logs.get(tenantId);
    return known !== undefined && known.version === this.#version ? known : undefined;
  }

  /** Takes the edge of a log at its head. The caller may change it. Undefined if the cache has none. */
  takeEdge({ tenantId, size, root }: StoredHead): RightEdge | undefined {
    const known = this.#pending.get(tenantId) ?? this.#logs.get(tenantId);
    this.forget(tenantId);
    return known?.head.size === size && sameHash(known.head.root, root) ? known.edge : undefined;
  }

  /** Notes the state of a log after the commit. Without a version nothing is noted. */
  note(log: KnownLog): void {
    if (this.#version !== undefined) this.#pending.set(log.head.tenantId, log);
  }

  forget(tenantId: TenantId): void {
    this.#pending.delete(tenantId);
    this.#logs.delete(tenantId);
  }
}
