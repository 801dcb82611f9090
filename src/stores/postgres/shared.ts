/** Short-lived state that replicas share. Each tenant's counters, and its proofs, have their own transactions. */
import type { ProofUse } from "../../auth/replay-store.ts";
import type { TenantId } from "../../base/ids.ts";
import { outsideConnections } from "../../base/timers.ts";
import type { AttemptLimit, Portion, ReachedLimit } from "../../domain/ports.ts";
import { ProofBatches } from "../sql/proof-batches.ts";
import type { Transaction } from "../sql/queries.ts";
import { givingBack, keyTenant, noteProofs, takeAttempts, takePortion } from "../sql/shared.ts";
import type { ConnectionPool } from "./connection/pool.ts";

export class SharedCounters {
  readonly #pool: ConnectionPool;
  readonly #now: () => number;
  readonly #batches = new Map<TenantId, ProofBatches>();

  constructor(pool: ConnectionPool, now: () => number) {
    this.#pool = pool;
    this.#now = now;
  }

  /**
   * Counts of one tenant's counters, or of those without a tenant, are returned if another's limit is reached. For a
   * moment too many may be counted, never too few.
   */
  async take(limits: readonly AttemptLimit[]): Promise<readonly ReachedLimit[]> {
    const groups = [...Map.groupBy(limits, keyTenant)];
    const reached = await Promise.all(
      groups.map(([key, group]) =>
        this.#transact((transaction) => takeAttempts(transaction, group, this.#now()), key || "addresses"),
      ),
    );
    const all = reached.flat();
    if (all.length > 0)
      await this.giveBack(groups.flatMap(([, group], position) => (reached[position]?.length === 0 ? group : [])));
    return all;
  }

  /** Returns one attempt under each limit whose window has not ended. */
  async giveBack(limits: readonly AttemptLimit[]): Promise<void> {
    await Promise.all(limits.map((limit) => this.giveBackPortion(limit, 1)));
  }

  /** A portion of unknown outcome is requested again, and may be lost. */
  takePortion(limit: AttemptLimit, wanted: number): Promise<Portion> {
    const key = keyTenant(limit) || "addresses";
    return this.#transact((transaction) => takePortion(transaction, limit, wanted, this.#now()), key);
  }

  async giveBackPortion(limit: AttemptLimit, unused: number): Promise<void> {
    await this.#pool.write(...givingBack(limit, unused, this.#now()));
  }

  /** Rejects with an error of the driver, `UnknownOutcomeError` or `store_unavailable` if the answer is unknown. */
  async firstUse(use: ProofUse, expiresAtMs: number): Promise<boolean> {
    const { tenantId } = use;
    const batches = this.#batches.get(tenantId) ?? this.#batchesOf(tenantId);
    this.#batches.set(tenantId, batches);
    try {
      return await this.#pool.inTime(batches.firstUse(use, expiresAtMs));
    } finally {
      if (batches.isIdle) this.#batches.delete(tenantId);
    }
  }

  /** A batch's waits are not bounded by its first caller's time limit. */
  #batchesOf(tenantId: TenantId): ProofBatches {
    return new ProofBatches((rows) =>
      outsideConnections(() =>
        this.#transact((transaction) => noteProofs(transaction, tenantId, rows, this.#now()), tenantId),
      ),
    );
  }

  #transact<Result>(work: (transaction: Transaction) => Promise<Result>, key: string): Promise<Result> {
    return this.#pool.retrying(() => this.#pool.transaction(work), key);
  }
}
