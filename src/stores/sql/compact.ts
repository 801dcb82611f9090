/** Removes expired rows of every tenant, beside a running service. Writes of a service remove only a few at a time. */
import { clockDifferenceMs } from "../../base/clock.ts";
import { idempotencyTtlMs } from "../../ledger/record/idempotency-record.ts";
import type { StoreDatabase } from "./backend.ts";
import { translated } from "./queries.ts";
import { expiring } from "./shared.ts";

export interface CompactOptions {
  /** Milliseconds since the Unix epoch. */
  readonly nowMs: number;
  /** Whether to rewrite an embedded store's file, which blocks all other writers. */
  readonly rewrite: boolean;
  /** Resolves when the next of many short transactions may begin. */
  readonly pause: () => Promise<void>;
  readonly onProgress: (text: string) => void;
}

export interface Compacted {
  /** Number of removed rows, by table. */
  readonly removed: Readonly<Record<string, number>>;
  readonly beforeBytes: number;
  readonly afterBytes: number;
  /** Whether the write-ahead log is empty; undefined if the database manages it. */
  readonly isLogEmpty: boolean | undefined;
}

/** Tables with rows that expire, and how long a row is kept after that. */
const expiringTables = [
  { table: "kept_answers", key: "scope", expiry: "kept_at_ms", keptForMs: idempotencyTtlMs },
  { table: "proof_uses", key: "proof", expiry: "expires_at_ms", keptForMs: 0 },
  { table: "attempts", key: "counter", expiry: "window_ends_at_ms", keptForMs: 0 },
];

/** Rows of one transaction, which delays a service by milliseconds. */
const rowsEach = 1_000;

/** Rejects with an error for the operator. */
export function compactStore(database: StoreDatabase, options: CompactOptions): Promise<Compacted> {
  const { nowMs, rewrite, pause, onProgress } = options;
  if (rewrite && database.rewrite === undefined)
    return Promise.reject(new Error("--rewrite is for an embedded store: PostgreSQL has VACUUM."));
  return translated(database, async () => {
    const beforeBytes = await database.sizeBytes();
    const theirMs = await database.clockMs?.();
    // The earlier of two clocks, because rows that detect a replayed proof or a repeated call must stay.
    const expiredMs = theirMs === undefined ? nowMs : Math.floor(Math.min(nowMs, theirMs)) - clockDifferenceMs;
    const removed: Record<string, number> = {};
    for (const { table, key, expiry, keptForMs } of expiringTables) {
      const tenants = `SELECT DISTINCT tenant_id FROM ${table} WHERE ${expiry} <= $1 ORDER BY tenant_id`;
      const remove = expiring(table, key, expiry);
      const before = expiredMs - keptForMs;
      const { rows } = await database.query(tenants, [before]);
      let count = 0;
      for (const { tenant_id } of rows)
        for (let gone = rowsEach; gone === rowsEach; count += gone) {
          await pause();
          const values = [tenant_id, before, rowsEach];
          gone = (await database.transact((transaction) => transaction.query(remove, values))).count;
          onProgress(`${table}: ${count + gone} expired rows removed`);
        }
      removed[table] = count;
    }
    if (rewrite) {
      onProgress("rewriting the file");
      await database.rewrite?.();
    }
    const isLogEmpty = await database.emptyLog?.(pause);
    return { removed, beforeBytes, afterBytes: await database.sizeBytes(), isLogEmpty };
  });
}
