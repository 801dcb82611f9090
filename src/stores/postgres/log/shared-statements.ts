/**
 * What a transaction of many tenants reads and writes: one statement a table, whatever the number of tenants and of the
 * records that are given. Their rows are on one server; on a cluster every tenant has transactions of its own.
 */
import type { TenantId } from "../../../base/ids.ts";
import type { SealedEntry } from "../../../ledger/append/sequence.ts";
import type { LogState, Patience } from "../../../ledger/ports/store.ts";
import { purgedPerInsert } from "../../../ledger/record/idempotency-record.ts";
import type { TileReader } from "../../../ledger/tlog/tile-nodes.ts";
import type { TileCoordinate } from "../../../ledger/tlog/tiles.ts";
import { bigintArray, byteaArray, integerArray, textArray } from "../connection/arrays.ts";
import type { Queries, Row, Statement } from "../connection/connection.ts";
import { addSearchOfMany } from "../search/add-search.ts";
import type { AddedRows } from "./add-records.ts";
import { type KeptCall, oldestKeptMs } from "./idempotency-records.ts";
import { headColumns, type StoredHead, toHead } from "./log-rows.ts";

const headsOfMany = `SELECT ${headColumns} FROM log_heads WHERE tenant_id = ANY ($1)`;
const locks = {
  none: { name: "lock_heads", text: `${headsOfMany} FOR UPDATE SKIP LOCKED` },
  // In one order: two that wait never wait for each other.
  moment: { name: "lock_heads_in_order", text: `${headsOfMany} ORDER BY tenant_id FOR UPDATE` },
} satisfies Record<string, Statement>;
const findKept: Statement = {
  name: "find_kept_of_many",
  text: `SELECT tenant_id, scope, leaf_index, tree_size, kept_answers.sealed AS answer, record_id, leaf,
                entries.sealed AS record, CASE WHEN erasure_leaf_index IS NULL THEN opening END AS opening
           FROM unnest($1::text[], $2::bytea[]) AS asked (tenant_id, scope)
           JOIN kept_answers USING (tenant_id, scope)
           JOIN entries USING (tenant_id, leaf_index)
           LEFT JOIN openings USING (tenant_id, record_id)
           LEFT JOIN (SELECT tenant_id, record_id, erasure_leaf_index FROM erasures) erased USING (tenant_id, record_id)`,
};
const tilesOf: Statement = {
  name: "tiles_of_many",
  text: `SELECT tenant_id, level, tile_index, hashes
           FROM unnest($1::text[], $2::integer[], $3::bigint[]) AS asked (tenant_id, level, tile_index)
           JOIN tiles USING (tenant_id, level, tile_index)`,
};
const insertEntries: Statement = {
  name: "insert_entries_of_many",
  text: `INSERT INTO entries (tenant_id, leaf_index, record_id, leaf, sealed)
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bytea[], $5::bytea[])`,
};
const insertOpenings: Statement = {
  name: "insert_openings_of_many",
  text: `INSERT INTO openings (tenant_id, record_id, opening)
         SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[])`,
};
const writeTiles: Statement = {
  name: "write_tiles_of_many",
  text: `INSERT INTO tiles (tenant_id, level, tile_index, hashes)
         SELECT * FROM unnest($1::text[], $2::integer[], $3::bigint[], $4::bytea[])
         ON CONFLICT (tenant_id, level, tile_index) DO UPDATE SET hashes = excluded.hashes`,
};
const keep: Statement = {
  name: "keep_answers_of_many",
  text: `INSERT INTO kept_answers (tenant_id, scope, leaf_index, tree_size, kept_at_ms, sealed)
         SELECT tenant_id, scope, leaf_index, tree_size, $6, sealed
           FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bytea[])
             AS kept (tenant_id, scope, leaf_index, tree_size, sealed)`,
};
const purge: Statement = {
  name: "purge_kept_of_many",
  text: `DELETE FROM kept_answers WHERE (tenant_id, scope) IN
           (SELECT own.tenant_id, old.scope FROM unnest($1::text[]) AS own (tenant_id) CROSS JOIN LATERAL
             (SELECT scope FROM kept_answers WHERE kept_answers.tenant_id = own.tenant_id AND kept_at_ms < $2
               ORDER BY kept_at_ms LIMIT $3) old)`,
};
const moveHeads: Statement = {
  name: "move_heads",
  text: `UPDATE log_heads
            SET size = next.size, root = next.root, last_recorded_at_ms = next.recorded_at_ms, registered_to = next.size
           FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bytea[])
             AS next (tenant_id, size, root, recorded_at_ms, size_before, root_before)
          WHERE log_heads.tenant_id = next.tenant_id
            AND log_heads.size = next.size_before AND log_heads.root = next.root_before`,
};
const touchHeads: Statement = {
  name: "touch_heads",
  text: "UPDATE log_heads SET last_recorded_at_ms = last_recorded_at_ms WHERE tenant_id = ANY ($1)",
};

/**
 * Locks heads until the transaction ends, and reads what their last holders left: of those that nobody holds, or of all,
 * waiting for their holders.
 */
export async function lockHeads(
  queries: Queries,
  tenants: readonly TenantId[],
  patience: Exclude<Patience, "full">,
): Promise<ReadonlyMap<TenantId, StoredHead>> {
  const { rows } = await queries.query(locks[patience], [textArray(tenants)]);
  return new Map(rows.map((row) => [row.tenant_id as TenantId, toHead(row)]));
}

/** What was kept under scopes, with its record. Rows say which tenant's they are. */
export async function findKeptOfMany(
  queries: Queries,
  asked: readonly { readonly tenantId: TenantId; readonly scope: string }[],
): Promise<readonly Row[]> {
  if (asked.length === 0) return [];
  const scopes = asked.map(({ scope }) => Buffer.from(scope, "hex"));
  return (await queries.query(findKept, [textArray(asked.map(({ tenantId }) => tenantId)), byteaArray(scopes)])).rows;
}

/** A tile of somebody. */
export interface OwnTile extends Pick<TileCoordinate, "level" | "index"> {
  readonly tenantId: TenantId;
}

/** Reads tiles of many tenants; those that are not there are undefined to the readers. */
export async function readTilesOfMany(
  queries: Queries,
  asked: readonly OwnTile[],
): Promise<(tenantId: TenantId) => TileReader> {
  const tiles = new Map<TenantId, Map<string, Uint8Array>>();
  if (asked.length > 0) {
    const { rows } = await queries.query(tilesOf, [
      textArray(asked.map(({ tenantId }) => tenantId)),
      integerArray(asked.map(({ level }) => level)),
      bigintArray(asked.map(({ index }) => index)),
    ]);
    for (const row of rows) {
      const own = tiles.get(row.tenant_id as TenantId) ?? new Map<string, Uint8Array>();
      own.set(`${row.level}/${row.tile_index}`, row.hashes as Uint8Array);
      tiles.set(row.tenant_id as TenantId, own);
    }
  }
  return (tenantId) => (level, index) => tiles.get(tenantId)?.get(`${level}/${index}`);
}

/** What one tenant adds in the transaction. */
export interface OwnRows extends AddedRows {
  readonly head: StoredHead;
  readonly log: LogState;
  readonly lastRecordedAtMs: number;
}

/** Writes what tenants add, under the locks of their heads. Resolves with whether all heads were what they had been. */
export async function writeOfMany(queries: Queries, parts: readonly OwnRows[], nowMs: number): Promise<boolean> {
  const entries = parts.flatMap(({ log, entries }) => entries.map((entry) => ({ tenantId: log.tenantId, entry })));
  const calls = parts.flatMap(({ log, calls }) => calls.map((call) => ({ log, call })));
  const [moved] = await Promise.all([
    queries.query(moveHeads, headColumnsOf(parts)),
    writeEntries(queries, entries),
    writeTilesOf(queries, parts),
    keepCalls(queries, calls, nowMs),
    addSearchOfMany(
      queries,
      parts.map(({ log, search }) => ({ tenantId: log.tenantId, ...search })),
    ),
  ]);
  return moved.count === parts.length;
}

/** A write that changes nothing: the commit that follows is as durable as any, and so is all that was read before. */
export async function touchMany(queries: Queries, tenants: readonly TenantId[]): Promise<void> {
  if (tenants.length > 0) await queries.query(touchHeads, [textArray(tenants)]);
}

function headColumnsOf(parts: readonly OwnRows[]): readonly Buffer[] {
  return [
    textArray(parts.map(({ log }) => log.tenantId)),
    bigintArray(parts.map(({ log }) => log.size)),
    byteaArray(parts.map(({ log }) => log.root)),
    bigintArray(parts.map(({ lastRecordedAtMs }) => lastRecordedAtMs)),
    bigintArray(parts.map(({ head }) => head.size)),
    byteaArray(parts.map(({ head }) => head.root)),
  ];
}

async function writeEntries(
  queries: Queries,
  rows: readonly { readonly tenantId: TenantId; readonly entry: SealedEntry }[],
): Promise<void> {
  const tenants = textArray(rows.map(({ tenantId }) => tenantId));
  const recordIds = textArray(rows.map(({ entry }) => entry.recordId));
  await Promise.all([
    queries.query(insertEntries, [
      tenants,
      bigintArray(rows.map(({ entry }) => entry.leafIndex)),
      recordIds,
      byteaArray(rows.map(({ entry }) => entry.leaf)),
      byteaArray(rows.map(({ entry }) => entry.sealed)),
    ]),
    queries.query(insertOpenings, [tenants, recordIds, byteaArray(rows.map(({ entry }) => entry.opening))]),
  ]);
}

async function writeTilesOf(queries: Queries, parts: readonly OwnRows[]): Promise<void> {
  const rows = parts.flatMap(({ log, tiles }) => tiles.map((tile) => ({ tenantId: log.tenantId, ...tile })));
  await queries.query(writeTiles, [
    textArray(rows.map(({ tenantId }) => tenantId)),
    integerArray(rows.map(({ level }) => level)),
    bigintArray(rows.map(({ index }) => index)),
    byteaArray(rows.map(({ hashes }) => hashes)),
  ]);
}

async function keepCalls(
  queries: Queries,
  calls: readonly { readonly log: LogState; readonly call: KeptCall }[],
  nowMs: number,
): Promise<void> {
  if (calls.length === 0) return;
  const tenants = calls.map(({ log }) => log.tenantId);
  const perTenant = purgedPerInsert * Math.ceil(calls.length / new Set(tenants).size);
  await Promise.all([
    queries.query(purge, [textArray([...new Set(tenants)]), oldestKeptMs(nowMs), perTenant]),
    queries.query(keep, [
      textArray(tenants),
      byteaArray(calls.map(({ call }) => call.scope)),
      bigintArray(calls.map(({ call }) => call.leafIndex)),
      bigintArray(calls.map(({ log }) => log.size)),
      byteaArray(calls.map(({ call }) => call.sealed)),
      nowMs,
    ]),
  ]);
}
