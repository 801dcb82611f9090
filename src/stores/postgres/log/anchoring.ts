/** Checks logs against their anchor before an append, and advances the anchor after a commit. */
import { LRUCache } from "lru-cache";
import type { TenantId } from "../../../base/ids.ts";
import type { AnchoredLog } from "../../../ledger/ports/anchor.ts";
import type { LogState } from "../../../ledger/ports/store.ts";
import { type Hash, sameHash } from "../../../ledger/tlog/tree.ts";
import { refuseUnsound } from "../../sql/anchoring.ts";
import type { Queries } from "../../sql/queries.ts";
import type { SqliteAnchor } from "../../sqlite/log/anchor.ts";

/** States that are known to be durable, one a log. About 200 bytes each. */
const maxConfirmed = 16_384;

export class LogAnchoring {
  readonly #anchor: SqliteAnchor | undefined;
  readonly #confirmed = new LRUCache<TenantId, Hash>({ max: maxConfirmed });

  constructor(anchor: SqliteAnchor | undefined) {
    this.#anchor = anchor;
  }

  /** Advances the anchor to states that are durable, of all logs in one step. */
  confirm(...logs: readonly LogState[]): void {
    if (logs.length === 0) return;
    this.#anchor?.advance(logs);
    for (const { tenantId, root } of logs) this.#confirmed.set(tenantId, root);
  }

  /** Whether a state of the tenant's log was seen to be durable: then it has one. */
  hasLog(tenantId: TenantId): boolean {
    return this.#confirmed.has(tenantId);
  }

  /** What was noted of a log, where something was. */
  anchored(tenantId: TenantId): AnchoredLog | undefined {
    return this.#anchor?.find(tenantId);
  }

  /** Whether this state was seen to be durable and is the one that is anchored. */
  isConfirmed({ tenantId, size, root }: LogState): boolean {
    const confirmed = this.#confirmed.get(tenantId);
    if (confirmed === undefined || !sameHash(confirmed, root)) return false;
    if (this.#anchor === undefined) return true;
    const anchored = this.#anchor.find(tenantId);
    return anchored?.size === size && sameHash(anchored.root, root);
  }

  /** Rejects with `UnsoundLogError` where the log is not what its anchor says. */
  refuseUnsound(queries: Queries, tenantId: TenantId, log: LogState | undefined): Promise<void> {
    return refuseUnsound(queries, tenantId, log, this.#anchor?.find(tenantId));
  }
}
