/** What replicas share for a short time: attempts in windows of time, and proofs that were used. */

import type { ProofUse } from "../../auth/proof/replay-store.ts";
import { clockDifferenceMs } from "../../base/clock.ts";
import { outsideConnections } from "../../base/connection.ts";
import type { TenantId } from "../../base/ids.ts";
import type { AttemptLimit, Portion, ReachedLimit } from "../../domain/ports.ts";
import { ProofBatches, type ProofRow } from "../proof-batches.ts";
import type { Queries, Statement } from "../sql/queries.ts";
import { TransactionError } from "./connection/errors.ts";
import type { ConnectionPool } from "./connection/pool.ts";

/**
 * Parameters: 1 tenant, 2 counter, 3 the time, 4 length of the window. A window that ends later than one could is of a
 * clock that went back since: it does not count. Else each of two replicas whose clocks differ would begin anew the window
 * of the other.
 */
const isCurrent = `attempts.window_ends_at_ms > $3::bigint
  AND attempts.window_ends_at_ms <= $3::bigint + $4::bigint + ${clockDifferenceMs}`;

/** Counts one, unless as many as parameter 5 were counted in the window. */
const count: Statement = {
  name: "count_attempt",
  text: `INSERT INTO attempts (tenant_id, counter, taken, window_ends_at_ms)
         VALUES ($1, $2, 1, $3::bigint + $4::bigint)
         ON CONFLICT (tenant_id, counter) DO UPDATE SET
           taken = CASE WHEN ${isCurrent} THEN attempts.taken + 1 ELSE 1 END,
           window_ends_at_ms = CASE WHEN ${isCurrent} THEN attempts.window_ends_at_ms
                                    ELSE excluded.window_ends_at_ms END
         WHERE NOT (${isCurrent}) OR attempts.taken < $5::integer`,
};
const windowEnd: Statement = {
  name: "attempt_window",
  text: "SELECT window_ends_at_ms FROM attempts WHERE tenant_id = $1 AND counter = $2",
};
const giveBack: Statement = {
  name: "give_back_attempt",
  text: `UPDATE attempts SET taken = GREATEST(0, taken - $5::integer)
          WHERE tenant_id = $1 AND counter = $2 AND ${isCurrent}`,
};
/** Counts as many as parameter 5, beyond the maximum too: so the answer tells what was counted before. */
const countPortion: Statement = {
  name: "count_portion",
  text: `INSERT INTO attempts (tenant_id, counter, taken, window_ends_at_ms)
         VALUES ($1, $2, $5::integer, $3::bigint + $4::bigint)
         ON CONFLICT (tenant_id, counter) DO UPDATE SET
           taken = CASE WHEN ${isCurrent} THEN attempts.taken + $5::integer ELSE $5::integer END,
           window_ends_at_ms = CASE WHEN ${isCurrent} THEN attempts.window_ends_at_ms
                                    ELSE excluded.window_ends_at_ms END
         RETURNING taken, window_ends_at_ms`,
};
/** In the same transaction: of parameter 3, what goes beyond the maximum, parameter 4, was not granted. */
const boundPortion: Statement = {
  name: "bound_portion",
  text: `UPDATE attempts SET taken = GREATEST(taken - $3::integer, LEAST(taken, $4::integer))
          WHERE tenant_id = $1 AND counter = $2 AND taken > $4::integer`,
};
const expiringAttempts: Expiring = { table: "attempts", key: "counter", expiry: "window_ends_at_ms" };

/** Not committed: some limits are reached. */
class Reached extends TransactionError {
  readonly limits: readonly ReachedLimit[];
  constructor(limits: readonly ReachedLimit[]) {
    super("limits are reached");
    this.limits = limits;
  }
}

export class Attempts {
  readonly #pool: ConnectionPool;

  constructor(pool: ConnectionPool) {
    this.#pool = pool;
  }

  /**
   * Counts one under each of the limits, or under none where some are reached, and resolves with those. Each tenant's
   * counters, and those of no tenant, are a transaction of their own: what one has counted is given back where another
   * is reached, so that for a moment too many may be counted, and never too few.
   */
  async take(limits: readonly AttemptLimit[], nowMs: number): Promise<readonly ReachedLimit[]> {
    const groups = byTenant(limits);
    const reached = await Promise.all(groups.map((group) => this.#takeGroup(group, nowMs)));
    const all = reached.flat();
    if (all.length > 0)
      await this.giveBack(groups.filter((_, position) => reached[position]?.length === 0).flat(), nowMs);
    return all;
  }

  /** Takes back one under each whose window has not ended. */
  async giveBack(limits: readonly AttemptLimit[], nowMs: number): Promise<void> {
    await Promise.all(limits.map((limit) => this.giveBackPortion(limit, 1, nowMs)));
  }

  /** Grants up to so many of what the limit leaves. One of unknown outcome is asked for again, and may be lost. */
  async takePortion(limit: AttemptLimit, wanted: number, nowMs: number): Promise<Portion> {
    const key = keyOf(limit);
    const { maximum, windowMs, tenantId } = limit;
    const [row] = await this.#pool.retrying(
      () =>
        this.#pool.transaction(async (connection) => {
          const [counted] = await Promise.all([
            connection.query(countPortion, [...key, nowMs, windowMs, wanted]),
            connection.query(boundPortion, [...key, wanted, maximum]),
            removeExpired(connection, expiringAttempts, tenantId ?? "", nowMs, 1),
          ]);
          return counted.rows;
        }),
      tenantId ?? "addresses",
    );
    const left = Math.max(0, maximum - (Number(row?.taken) - wanted));
    const granted = Math.min(wanted, left);
    return { granted, left: left - granted, waitMs: Number(row?.window_ends_at_ms) - nowMs };
  }

  async giveBackPortion(limit: AttemptLimit, unused: number, nowMs: number): Promise<void> {
    await this.#pool.write(giveBack, [...keyOf(limit), nowMs, limit.windowMs, unused]);
  }

  /** In the order of their names, so that two transactions never wait for each other. */
  async #takeGroup(limits: readonly AttemptLimit[], nowMs: number): Promise<readonly ReachedLimit[]> {
    const ordered = limits.toSorted((a, b) => (a.counter < b.counter ? -1 : 1));
    try {
      await this.#pool.retrying(
        () =>
          this.#pool.transaction(async (connection) => {
            const reached = await Promise.all(ordered.map((limit) => takeOne(connection, limit, nowMs)));
            const found = reached.filter((limit) => limit !== undefined);
            if (found.length > 0) throw new Reached(found);
            const [first] = ordered;
            if (first !== undefined)
              await removeExpired(connection, expiringAttempts, first.tenantId ?? "", nowMs, ordered.length);
          }),
        ordered[0]?.tenantId ?? "addresses",
      );
      return [];
    } catch (error) {
      if (error instanceof Reached) return error.limits;
      throw error;
    }
  }
}

async function takeOne(queries: Queries, limit: AttemptLimit, nowMs: number): Promise<ReachedLimit | undefined> {
  const counted = await queries.query(count, [...keyOf(limit), nowMs, limit.windowMs, limit.maximum]);
  if (counted.count === 1) return undefined;
  const [row] = (await queries.query(windowEnd, keyOf(limit))).rows;
  return { counter: limit.counter, waitMs: (row?.window_ends_at_ms as number) - nowMs };
}

function keyOf({ tenantId, counter }: AttemptLimit): [string, string] {
  return [tenantId ?? "", counter];
}

function byTenant(limits: readonly AttemptLimit[]): readonly (readonly AttemptLimit[])[] {
  const groups = new Map<string, AttemptLimit[]>();
  for (const limit of limits) {
    const group = groups.get(limit.tenantId ?? "");
    if (group === undefined) groups.set(limit.tenantId ?? "", [limit]);
    else group.push(limit);
  }
  return [...groups.values()];
}

const insert: Statement = {
  name: "insert_proofs",
  text: `INSERT INTO proof_uses (tenant_id, proof, expires_at_ms)
         SELECT $1, used.* FROM unnest($2::text[], $3::bigint[]) AS used ON CONFLICT DO NOTHING RETURNING proof`,
};
const expiringProofs: Expiring = { table: "proof_uses", key: "proof", expiry: "expires_at_ms" };

/** The proofs that callers have used. Each tenant's go together: they share a statement, and no other tenant's row. */
export class DpopReplays {
  readonly #pool: ConnectionPool;
  readonly #now: () => number;
  readonly #batches = new Map<TenantId, ProofBatches>();

  constructor(pool: ConnectionPool, now: () => number) {
    this.#pool = pool;
    this.#now = now;
  }

  /** Rejects with an error of the driver, `UnknownOutcomeError` or `store_unavailable` where it cannot be known. */
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

  /** What a batch waits for is not part of what its first caller waits for. */
  #batchesOf(tenantId: TenantId): ProofBatches {
    return new ProofBatches((rows) => outsideConnections(() => this.#note(tenantId, rows)));
  }

  /** For each row, in order, whether it was not there yet. */
  async #note(tenantId: TenantId, rows: readonly ProofRow[]): Promise<readonly boolean[]> {
    const expiries = rows.map(({ expiresAtMs }) => Math.ceil(expiresAtMs));
    const inserted = await this.#pool.retrying(
      () =>
        this.#pool.transaction(async (connection) => {
          const [answer] = await Promise.all([
            connection.query(insert, [tenantId, rows.map(({ proof }) => proof), expiries]),
            removeExpired(connection, expiringProofs, tenantId, this.#now(), rows.length),
          ]);
          return new Set(answer.rows.map(({ proof }) => proof));
        }),
      tenantId,
    );
    // Of two rows with the same proof the first one has it.
    return rows.map(({ proof }) => inserted.delete(proof));
  }
}

/** A table whose rows may go one day. */
export interface Expiring {
  readonly table: string;
  /** The column that follows the tenant in the primary key. */
  readonly key: string;
  /** Column with the milliseconds since the Unix epoch from which on a row may go; indexed behind the tenant. */
  readonly expiry: string;
}

/** Rows that one write removes besides: more than it adds, so that a table shrinks while it is written to. */
const removedPerRow = 2;
const removedAtLeast = 16;

/**
 * To be called in the transaction that writes so many rows of the tenant. Rows that another transaction holds are left
 * to it: nobody waits for this.
 */
export async function removeExpired(
  queries: Queries,
  { table, key, expiry }: Expiring,
  tenantId: string,
  nowMs: number,
  rowsWritten: number,
): Promise<void> {
  const statement: Statement = {
    name: `expire_${table}`,
    text: `DELETE FROM ${table} WHERE tenant_id = $1 AND ${key} IN
             (SELECT ${key} FROM ${table} WHERE tenant_id = $1 AND ${expiry} <= $2
               ORDER BY ${expiry} LIMIT $3 FOR UPDATE SKIP LOCKED)`,
  };
  await queries.query(statement, [tenantId, nowMs, removedAtLeast + removedPerRow * rowsWritten]);
}
