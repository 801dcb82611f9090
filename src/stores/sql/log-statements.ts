/** What appends write, under the locks of logs' heads: one statement per table, whatever the number of rows. */
import type { TenantId } from "../../base/ids.ts";
import type { SealedEntry } from "../../ledger/append/sequence.ts";
import type { WrittenTile } from "../../ledger/tlog/right-edge.ts";
import { type KeptCall, keepAnswers } from "./idempotency-records.ts";
import type { StoredHead } from "./log-rows.ts";
import {
  onTenants,
  type Queries,
  queryRows,
  type Statement,
  type TenantStatement,
  type Transaction,
  toRow,
} from "./queries.ts";
import type { SearchAddition } from "./search-backlog.ts";
import { addSearch } from "./search-segments.ts";
import { tables } from "./tables.ts";

const nameLog: Statement = {
  name: "name_log",
  text: "INSERT INTO log_names (name, tenant_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
};
const openLog: Statement = {
  name: "open_log",
  text: `INSERT INTO log_heads (tenant_id, origin, size, root, last_recorded_at_ms, key_position)
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`,
};
/** Compare-and-swap of heads. */
const moveHeads: TenantStatement = {
  ofOne: {
    name: "move_head",
    text: `UPDATE log_heads SET size = $2, root = $3, last_recorded_at_ms = $4, key_position = $5
            WHERE tenant_id = $1 AND size = $6 AND root = $7`,
  },
  ofMany: {
    name: "move_heads",
    text: `UPDATE log_heads
              SET size = next.size, root = next.root, last_recorded_at_ms = next.recorded_at_ms,
                  key_position = next.key_position
             FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[], $5::integer[], $6::bigint[], $7::bytea[])
               AS next (tenant_id, size, root, recorded_at_ms, key_position, size_before, root_before)
            WHERE log_heads.tenant_id = next.tenant_id
              AND log_heads.size = next.size_before AND log_heads.root = next.root_before`,
  },
};
const touchHeads = onTenants(
  "touch_heads",
  (isOwn) => `UPDATE log_heads SET last_recorded_at_ms = last_recorded_at_ms WHERE ${isOwn}`,
);

/** Returns the statement that keeps the name of a new log, and its values. */
export function namingLog(name: string, tenantId: TenantId): [Statement, readonly unknown[]] {
  return [nameLog, [name, tenantId]];
}

/** Opens a log. Resolves with false if the tenant has one already. */
export async function insertHead(
  queries: Queries,
  { tenantId, origin, size, root, lastRecordedAtMs, keyPosition }: StoredHead,
): Promise<boolean> {
  const values = [tenantId, origin, size, root, lastRecordedAtMs, keyPosition];
  return (await queries.query(openLog, values)).count === 1;
}

/** A write that changes nothing: its commit makes durable what was read before. */
export async function touch(queries: Queries, tenants: readonly TenantId[]): Promise<void> {
  if (tenants.length > 0) await queryRows(queries, touchHeads, tenants.map(toRow));
}

/** The rows of a tenant's append. */
export interface OwnRows {
  /** The head before them; undefined if it was inserted with the new log. */
  readonly before: StoredHead | undefined;
  /** The head with them. */
  readonly head: StoredHead;
  readonly entries: readonly SealedEntry[];
  readonly tiles: readonly WrittenTile[];
  readonly calls: readonly KeptCall[];
  readonly search: SearchAddition;
}

/** Writes the rows of different tenants. Resolves with false if a head was moved meanwhile. */
export async function writeRows(transaction: Transaction, all: readonly OwnRows[], nowMs: number): Promise<boolean> {
  const moves = all.flatMap(({ before, head }) =>
    before === undefined
      ? []
      : [
          [
            head.tenantId,
            ...[head.size, head.root, head.lastRecordedAtMs, head.keyPosition],
            ...[before.size, before.root],
          ] as const,
        ],
  );
  const [moved] = await Promise.all([
    moves.length === 0 ? 0 : transaction.each(moveHeads, moves),
    transaction.insert(
      tables.entries,
      all.flatMap(({ head: { tenantId }, entries }) =>
        entries.map(({ leafIndex, recordId, leaf, sealed }) => [tenantId, leafIndex, recordId, leaf, sealed]),
      ),
    ),
    transaction.insert(
      tables.openings,
      all.flatMap(({ head: { tenantId }, entries }) =>
        entries.map(({ recordId, opening }) => [tenantId, recordId, opening]),
      ),
    ),
    transaction.insert(
      tables.tiles,
      all.flatMap(({ head: { tenantId }, tiles }) =>
        tiles.map(({ level, index, hashes }) => [tenantId, level, index, hashes]),
      ),
    ),
    keepAnswers(transaction, all, nowMs),
    addSearch(
      transaction,
      all.map(({ head: { tenantId }, search }) => ({ tenantId, ...search })),
    ),
  ]);
  return moved === moves.length;
}
