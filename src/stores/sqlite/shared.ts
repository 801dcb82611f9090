/** What replicas share for a short time: attempts in windows of time, and proofs that were used. */
import { clockDifferenceMs } from "../../base/clock.ts";
import type { AttemptLimit, Portion, ReachedLimit } from "../../domain/ports.ts";
import type { ProofRow } from "../proof-batches.ts";
import type { SqliteConnection, SqliteStatement } from "./connection.ts";

export class Attempts {
  readonly #find: SqliteStatement;
  readonly #count: SqliteStatement;
  readonly #giveBack: SqliteStatement;
  readonly #expired: ExpiredRows;

  constructor(connection: SqliteConnection) {
    // Parameters: 1 tenant, 2 counter, 3 the time, 4 length of the window, 5 how many. A window that ends later than one could is of a clock that went back since: it does not count.
    const current = `window_ends_at_ms > ?3 AND window_ends_at_ms <= ?3 + ?4 + ${clockDifferenceMs}`;
    const here = "tenant_id = ?1 AND counter = ?2";
    this.#find = connection.prepare(`SELECT taken, window_ends_at_ms FROM attempts WHERE ${here} AND ${current}`);
    this.#count = connection.prepare(
      `INSERT INTO attempts (tenant_id, counter, taken, window_ends_at_ms)
       VALUES (?1, ?2, ?5, ?3 + ?4)
       ON CONFLICT DO UPDATE SET
         taken = iif(${current}, taken + ?5, ?5),
         window_ends_at_ms = iif(${current}, window_ends_at_ms, excluded.window_ends_at_ms)`,
    );
    this.#giveBack = connection.prepare(`UPDATE attempts SET taken = max(0, taken - ?5) WHERE ${here} AND ${current}`);
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
    for (const limit of limits) this.#count.run(...parameters(limit, nowMs), 1);
    this.#expired.remove(nowMs, limits.length);
    return [];
  }

  /** Takes back one under each whose window has not ended. In a transaction. */
  giveBack(limits: readonly AttemptLimit[], nowMs: number): void {
    for (const limit of limits) this.giveBackPortion(limit, 1, nowMs);
  }

  /** Grants up to so many of what the limit leaves. In a transaction. */
  takePortion(limit: AttemptLimit, wanted: number, nowMs: number): Portion {
    const row = this.#find.get(...parameters(limit, nowMs));
    const left = Math.max(0, limit.maximum - Number(row?.taken ?? 0));
    const granted = Math.min(wanted, left);
    if (granted > 0) this.#count.run(...parameters(limit, nowMs), granted);
    this.#expired.remove(nowMs, 1);
    return { granted, left: left - granted, waitMs: Number(row?.window_ends_at_ms ?? nowMs + limit.windowMs) - nowMs };
  }

  /** In a transaction. */
  giveBackPortion(limit: AttemptLimit, unused: number, nowMs: number): void {
    this.#giveBack.run(...parameters(limit, nowMs), unused);
  }
}

function parameters({ tenantId, counter, windowMs }: AttemptLimit, nowMs: number): [string, string, number, number] {
  return [tenantId ?? "", counter, nowMs, windowMs];
}

/** The proofs that callers have used, in the writer's thread. */
export class DpopReplays {
  readonly #insert: SqliteStatement;
  readonly #expired: ExpiredRows;

  constructor(connection: SqliteConnection) {
    this.#insert = connection.prepare(
      "INSERT INTO proof_uses (tenant_id, proof, expires_at_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
    );
    this.#expired = new ExpiredRows(connection, "proof_uses", "tenant_id, proof", "expires_at_ms");
  }

  /** For each row, in order, whether it was not there yet. To be called in a transaction. */
  note(rows: readonly ProofRow[], nowMs: number): readonly boolean[] {
    const first = rows.map(
      ({ tenantId, proof, expiresAtMs }) =>
        Number(this.#insert.run(tenantId, proof, Math.ceil(expiresAtMs)).changes) === 1,
    );
    this.#expired.remove(nowMs, rows.length);
    return first;
  }
}

/** Rows that one write removes besides: more than it adds, so that a table shrinks while it is written to. */
const removedPerRow = 2;
const removedAtLeast = 16;

/** Removes what nobody needs any more, a few rows with each write, so that no write has to remove them all. */
export class ExpiredRows {
  readonly #remove: SqliteStatement;

  /**
   * @param key columns of the primary key, separated by commas
   * @param expiry column with the milliseconds since the Unix epoch from which on a row may go; has an index
   */
  constructor(connection: SqliteConnection, table: string, key: string, expiry: string) {
    this.#remove = connection.prepare(
      `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} WHERE ${expiry} <= ? ORDER BY ${expiry} LIMIT ?)`,
    );
  }

  /** To be called in the transaction that writes so many rows. */
  remove(nowMs: number, rowsWritten: number): void {
    this.#remove.run(nowMs, removedAtLeast + removedPerRow * rowsWritten);
  }
}
