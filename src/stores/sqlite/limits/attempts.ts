/** Attempts in fixed windows of time, in the writer's thread. */
import type { AttemptLimit, ReachedLimit } from "../../../domain/ports.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";
import { ExpiredRows } from "./expired-rows.ts";

export class Attempts {
  readonly #find: SqliteStatement;
  readonly #count: SqliteStatement;
  readonly #giveBack: SqliteStatement;
  readonly #expired: ExpiredRows;

  constructor(connection: SqliteConnection) {
    // Parameters: 1 tenant, 2 counter, 3 the time, 4 length of the window. A window that ends later than one could is of a clock that went back since: it does not count.
    const current = "window_ends_at_ms > ?3 AND window_ends_at_ms <= ?3 + ?4";
    const here = "tenant_id = ?1 AND counter = ?2";
    this.#find = connection.prepare(`SELECT taken, window_ends_at_ms FROM attempts WHERE ${here} AND ${current}`);
    this.#count = connection.prepare(
      `INSERT INTO attempts (tenant_id, counter, taken, window_ends_at_ms)
       VALUES (?1, ?2, 1, ?3 + ?4)
       ON CONFLICT DO UPDATE SET
         taken = iif(${current}, taken + 1, 1),
         window_ends_at_ms = iif(${current}, window_ends_at_ms, excluded.window_ends_at_ms)`,
    );
    this.#giveBack = connection.prepare(
      `UPDATE attempts SET taken = taken - 1 WHERE ${here} AND ${current} AND taken > 0`,
    );
    this.#expired = new ExpiredRows(connection, "attempts", "tenant_id, counter", "window_ends_at_ms");
  }

  /** Counts one under each of the limits, or under none where some are reached, and returns those. In a transaction. */
  take(limits: readonly AttemptLimit[], nowMs: number): readonly ReachedLimit[] {
    const reached = limits.flatMap((limit) => {
      const row = this.#find.get(...parameters(limit, nowMs));
      if (row === undefined || Number(row.taken) < limit.maximum) return [];
      return [{ counter: limit.counter, waitMs: Number(row.window_ends_at_ms) - nowMs }];
    });
    if (reached.length > 0) return reached;
    for (const limit of limits) this.#count.run(...parameters(limit, nowMs));
    this.#expired.remove(nowMs, limits.length);
    return [];
  }

  /** Takes back one under each whose window has not ended. In a transaction. */
  giveBack(limits: readonly AttemptLimit[], nowMs: number): void {
    for (const limit of limits) this.#giveBack.run(...parameters(limit, nowMs));
  }
}

function parameters({ tenantId, counter, windowMs }: AttemptLimit, nowMs: number): [string, string, number, number] {
  return [tenantId ?? "", counter, nowMs, windowMs];
}
