/** Short-lived state that replicas share: attempts in windows of time, and used proofs. */
import type { ProofUse } from "../../auth/replay-store.ts";
import { clockDifferenceMs } from "../../base/clock.ts";
import type { TenantId } from "../../base/ids.ts";
import type { AttemptLimit, Portion } from "../../domain/ports.ts";
import { unavailable } from "../files/errors.ts";
import type { Queries } from "./queries.ts";

/**
 * Parameters: 1 tenant, 2 counter, 3 the time, 4 length of the window. A window that ends later than possible was made
 * by a clock that went back since, and is ignored. Without that rule, two replicas whose clocks differ would restart
 * each other's windows.
 */
const isCurrent = `(attempts.window_ends_at_ms > $3::bigint
  AND attempts.window_ends_at_ms <= $3::bigint + $4::bigint + ${clockDifferenceMs})`;

const giveBack = `UPDATE attempts SET taken = CASE WHEN taken > $4::integer THEN taken - $4::integer ELSE 0 END
   WHERE tenant_id = $1 AND counter = $2 AND window_ends_at_ms = $3::bigint`;
/** Adds parameter 5, beyond the maximum too, so that the answer shows the earlier count. */
const countPortion = `INSERT INTO attempts (tenant_id, counter, taken, window_ends_at_ms)
  VALUES ($1, $2, $5::integer, $3::bigint + $4::bigint)
  ON CONFLICT (tenant_id, counter) DO UPDATE SET
    taken = CASE WHEN ${isCurrent} THEN attempts.taken + $5::integer ELSE $5::integer END,
    window_ends_at_ms = CASE WHEN ${isCurrent} THEN attempts.window_ends_at_ms ELSE excluded.window_ends_at_ms END
  RETURNING taken, window_ends_at_ms`;
/** In the same transaction: takes back the part of parameter 3 beyond the maximum, parameter 4. */
const boundPortion = `UPDATE attempts
     SET taken = CASE WHEN taken - $3::integer > $4::integer THEN taken - $3::integer ELSE $4::integer END
   WHERE tenant_id = $1 AND counter = $2 AND taken > $4::integer`;

/** Grants up to `wanted` of what the limit leaves. Must be called in a transaction. */
export async function takePortion(
  queries: Queries,
  limit: AttemptLimit,
  wanted: number,
  nowMs: number,
): Promise<Portion> {
  const [counted] = await Promise.all([
    queries.query(countPortion, [...keyOf(limit), nowMs, limit.windowMs, wanted]),
    queries.query(boundPortion, [...keyOf(limit), wanted, limit.maximum]),
    removeExpired(queries, expiringAttempts, keyTenant(limit), nowMs, 1),
  ]);
  const [row] = counted.rows;
  const left = Math.max(0, limit.maximum - (Number(row?.taken) - wanted));
  const granted = Math.min(wanted, left);
  return { granted, left: left - granted, endsAtMs: Number(row?.window_ends_at_ms) };
}

/** Returns the statement that takes back attempts of the window that ends then, and its values. */
export function givingBack(limit: AttemptLimit, amount: number, endsAtMs: number): [string, readonly unknown[]] {
  return [giveBack, [...keyOf(limit), endsAtMs, amount]];
}

/** The tenant is empty for counters of an address, which no tenant owns. */
export function keyTenant({ tenantId }: AttemptLimit): string {
  return tenantId ?? "";
}

function keyOf(limit: AttemptLimit): [string, string] {
  return [keyTenant(limit), limit.counter];
}

const insertProofs = `INSERT INTO proof_uses (tenant_id, proof, expires_at_ms)
  SELECT $1::text, used.proof, used.expires_at_ms
    FROM unnest($2::text[], $3::bigint[]) AS used (proof, expires_at_ms) WHERE true
  ON CONFLICT DO NOTHING RETURNING proof`;

/** Returns for each of a tenant's proofs, in order, whether it is new. Must be called in a transaction. */
export async function noteProofs(
  queries: Queries,
  tenantId: TenantId,
  rows: readonly ProofRow[],
  nowMs: number,
): Promise<readonly boolean[]> {
  const expiries = rows.map(({ expiresAtMs }) => Math.ceil(expiresAtMs));
  const [answer] = await Promise.all([
    queries.query(insertProofs, [tenantId, rows.map(({ proof }) => proof), expiries]),
    removeExpired(queries, expiringProofs, tenantId, nowMs, rows.length),
  ]);
  const inserted = new Set(answer.rows.map(({ proof }) => proof));
  // Of two rows with the same proof the first one counts.
  return rows.map(({ proof }) => inserted.delete(proof));
}

/** Expired rows removed per written row: more than one, so that a table shrinks under load. */
const removedPerRow = 2;
const removedAtLeast = 16;

/**
 * Removes some rows of a tenant that expired by a time, through the index on expiry. Skips locked rows, so it never
 * waits.
 */
export const expiring = (table: string, key: string, expiry: string) => `DELETE FROM ${table}
   WHERE tenant_id = $1 AND ${key} IN
    (SELECT ${key} FROM ${table} WHERE tenant_id = $1 AND ${expiry} <= $2
      ORDER BY ${expiry} LIMIT $3 FOR UPDATE SKIP LOCKED)`;
const expiringAttempts = expiring("attempts", "counter", "window_ends_at_ms");
const expiringProofs = expiring("proof_uses", "proof", "expires_at_ms");

/** Must be called in the transaction that writes the tenant's rows. */
async function removeExpired(
  queries: Queries,
  statement: string,
  tenantId: string,
  nowMs: number,
  rowsWritten: number,
): Promise<void> {
  await queries.query(statement, [tenantId, nowMs, removedAtLeast + removedPerRow * rowsWritten]);
}

// Proofs that arrive while the writer is busy share the next commit.

export interface ProofRow extends ProofUse {
  /** Milliseconds since the Unix epoch after which the use may be forgotten. */
  readonly expiresAtMs: number;
}

/** Rows of one transaction. */
const maxBatch = 256;
/** Bound of waiting calls. */
const maxWaiting = 10_000;

interface Waiting extends PromiseWithResolvers<boolean> {
  readonly row: ProofRow;
}

export class ProofBatches {
  readonly #write: (rows: readonly ProofRow[]) => Promise<readonly boolean[]>;
  readonly #laneOf: (use: ProofUse) => string;
  /** Of each lane with a write. */
  readonly #waiting = new Map<string, Waiting[]>();

  /**
   * @param write returns for each row, in order, whether its use is the first; durable when it resolves
   * @param laneOf name of the lane of a use: lanes do not wait for each other, nor share a write
   */
  constructor(write: (rows: readonly ProofRow[]) => Promise<readonly boolean[]>, laneOf: (use: ProofUse) => string) {
    this.#write = write;
    this.#laneOf = laneOf;
  }

  /** Rejects as `write` does, and with `store_unavailable` if too many calls wait. */
  firstUse(use: ProofUse, expiresAtMs: number): Promise<boolean> {
    const lane = this.#laneOf(use);
    const queue = this.#waiting.get(lane) ?? [];
    if (queue.length >= maxWaiting) return Promise.reject(unavailable("Too many proofs wait to be noted."));
    const waiting = { row: { ...use, expiresAtMs }, ...Promise.withResolvers<boolean>() };
    queue.push(waiting);
    if (!this.#waiting.has(lane)) void this.#writeAll(lane, queue);
    return waiting.promise;
  }

  async #writeAll(lane: string, queue: Waiting[]): Promise<void> {
    this.#waiting.set(lane, queue);
    while (queue.length > 0) {
      const batch = queue.splice(0, maxBatch);
      await this.#write(batch.map(({ row }) => row)).then(
        (first) => batch.forEach(({ resolve }, at) => void resolve(first[at] === true)),
        (error: unknown) => batch.forEach(({ reject }) => void reject(error)),
      );
    }
    this.#waiting.delete(lane);
  }
}
