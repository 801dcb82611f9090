/** Checks logs against their anchor before an append, and advances the anchor after a commit. */
import { LRUCache } from "lru-cache";
import type { TenantId } from "../../../base/ids.ts";
import { type AnchoredLog, anchorProblem, type LogAnchor } from "../../../ledger/ports/anchor.ts";
import { type LogState, UnsoundLogError } from "../../../ledger/ports/store.ts";
import { MissingTileError } from "../../../ledger/tlog/tile-nodes.ts";
import { type Hash, sameHash } from "../../../ledger/tlog/tree.ts";
import type { PostgresConnection } from "../connection/connection.ts";
import { readTree } from "./log-rows.ts";

/** States that are known to be durable, one a log. About 200 bytes each. */
const maxConfirmed = 16_384;

export class LogAnchoring {
  readonly #anchor: LogAnchor | undefined;
  readonly #confirmed = new LRUCache<TenantId, Hash>({ max: maxConfirmed });

  constructor(anchor: LogAnchor | undefined) {
    this.#anchor = anchor;
  }

  /** Advances the anchor to states that are durable, of all logs in one step. */
  async confirm(...logs: readonly LogState[]): Promise<void> {
    if (logs.length === 0) return;
    await this.#anchor?.advance(logs);
    for (const { tenantId, root } of logs) this.#confirmed.set(tenantId, root);
  }

  /** Whether a state of the tenant's log was seen to be durable: then it has one. */
  hasLog(tenantId: TenantId): boolean {
    return this.#confirmed.has(tenantId);
  }

  /** What was noted of a log, where something was. */
  async anchored(tenantId: TenantId): Promise<AnchoredLog | undefined> {
    return this.#anchor?.find(tenantId);
  }

  /** Whether this state was seen to be durable and is the one that is anchored. */
  async isConfirmed({ tenantId, size, root }: LogState): Promise<boolean> {
    const confirmed = this.#confirmed.get(tenantId);
    if (confirmed === undefined || !sameHash(confirmed, root)) return false;
    if (this.#anchor === undefined) return true;
    const anchored = await this.#anchor.find(tenantId);
    return anchored?.size === size && sameHash(anchored.root, root);
  }

  /** Rejects with `UnsoundLogError` where the log is not what its anchor says. */
  async refuseUnsound(
    queries: Pick<PostgresConnection, "query">,
    tenantId: TenantId,
    log: LogState | undefined,
  ): Promise<void> {
    const anchored = await this.#anchor?.find(tenantId);
    if (anchored === undefined) return;
    const isOlder = log !== undefined && anchored.size < log.size;
    const tree = isOlder ? await readTree(queries, tenantId, anchored.size) : undefined;
    requireSound(anchored, log, () => tree?.root() as Hash);
  }
}

/** Throws `UnsoundLogError` where the log is not what its anchor says. */
export function requireSound(
  anchored: AnchoredLog | undefined,
  log: LogState | undefined,
  rootAt: (size: number) => Hash,
): void {
  const problem = orMessage(() => anchorProblem(anchored, { log, rootAt }));
  if (problem !== undefined) throw new UnsoundLogError(problem);
}

/** A root that cannot be computed is a problem of the log like any other. */
function orMessage(find: () => string | undefined): string | undefined {
  try {
    return find();
  } catch (error) {
    if (error instanceof MissingTileError) return error.message;
    throw error;
  }
}
