/**
 * What the writer's connection knows of logs, so that an append asks for nothing that nobody can have changed: what it has
 * committed itself holds for as long as no other connection has committed anything.
 */
import { LRUCache } from "lru-cache";
import type { TenantId } from "../../../base/ids.ts";
import type { RightEdge } from "../../../ledger/tlog/right-edge.ts";
import { sameHash } from "../../../ledger/tlog/tree.ts";
import type { LogIndex } from "../../sql/add-records.ts";
import type { StoredHead } from "../../sql/log-rows.ts";

/** The search index of a log, as an append leaves it. */
export type SearchState = Omit<LogIndex, "read">;

/** A log after an append of this connection. */
export interface KnownLog {
  readonly head: StoredHead;
  readonly edge: RightEdge;
  readonly search: SearchState;
}

/** Logs that are remembered, about 50 KiB each. */
const maxLogs = 1_024;

export class KnownLogs {
  readonly #logs = new LRUCache<TenantId, KnownLog & { readonly version: string }>({ max: maxLogs });
  /** As the transaction that is under way has left them. */
  readonly #pending = new Map<TenantId, KnownLog>();
  /** Of store and anchor, as the transaction that is under way sees them; undefined where nobody said. */
  #version: string | undefined;

  /**
   * A transaction has begun.
   * @param version of the contents of store and anchor: what of them was not committed here changes it
   */
  begin(version: string): void {
    this.#version = version;
    this.#pending.clear();
  }

  /** It has ended, and was committed where this is true; then what it has left is anchored too. */
  end(isCommitted: boolean): void {
    const version = this.#version;
    if (isCommitted && version !== undefined)
      for (const [tenantId, log] of this.#pending) this.#logs.set(tenantId, { ...log, version });
    this.#pending.clear();
    this.#version = undefined;
  }

  /** What holds of a log in this transaction without another look. */
  current(tenantId: TenantId): KnownLog | undefined {
    const pending = this.#pending.get(tenantId);
    if (pending !== undefined) return pending;
    const known = this.#logs.get(tenantId);
    return known !== undefined && known.version === this.#version ? known : undefined;
  }

  /** The edge of a log as its head has it, for the caller to change: it is forgotten here. Undefined where it is not here. */
  takeEdge({ tenantId, size, root }: StoredHead): RightEdge | undefined {
    const known = this.#pending.get(tenantId) ?? this.#logs.get(tenantId);
    this.forget(tenantId);
    return known?.head.size === size && sameHash(known.head.root, root) ? known.edge : undefined;
  }

  /** Notes what a log is once the transaction is committed. Without a version it would be believed of none. */
  note(log: KnownLog): void {
    if (this.#version !== undefined) this.#pending.set(log.head.tenantId, log);
  }

  forget(tenantId: TenantId): void {
    this.#pending.delete(tenantId);
    this.#logs.delete(tenantId);
  }
}
