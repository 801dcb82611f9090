/**
 * Statements of a transaction of many tenants: one per table, whatever the number of tenants and records. Their rows
 * are on one server; on a cluster every tenant has its own transactions.
 */
import type { TenantId } from "../../../base/ids.ts";
import type { LogState } from "../../../ledger/ports/store.ts";
import { purgedPerInsert } from "../../../ledger/record/idempotency-record.ts";
import type { LeafRange } from "../../../ledger/search/search-index.ts";
import type { TileReader } from "../../../ledger/tlog/tile-nodes.ts";
import type { TileCoordinate } from "../../../ledger/tlog/tiles.ts";
import type { AddedRows } from "../../sql/add-records.ts";
import { oldestKeptMs } from "../../sql/idempotency-records.ts";
import { headColumns, type StoredHead, toHead, visibleOpening } from "../../sql/log-rows.ts";
import type { Queries, Row, Statement, Transaction } from "../../sql/queries.ts";
import type { IndexGeneration } from "../../sql/search-backlog.ts";
import { bytesBefore, type ReadRecords, toRecords } from "../../sql/search-fill.ts";
import { indexColumns, toIndex } from "../../sql/search-index.ts";
import { addSegments } from "../../sql/search-segments.ts";
import { tables } from "../../sql/tables.ts";
import { bigintArray, byteaArray, integerArray, textArray } from "../connection/arrays.ts";

const headsOfMany = `SELECT ${headColumns} FROM log_heads WHERE tenant_id = ANY ($1)`;
const locks = {
  skip: { name: "lock_heads", text: `${headsOfMany} FOR UPDATE SKIP LOCKED` },
  // In one order, so that two waiting transactions never deadlock.
  wait: { name: "lock_heads_in_order", text: `${headsOfMany} ORDER BY tenant_id FOR UPDATE` },
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

/** Leaf by leaf, so that the server's planner knows how few they are. */
const entriesOfMany: Statement = {
  name: "entries_to_index_of_many",
  text: `SELECT tenant_id, leaf_index, leaf, sealed, opening FROM
           (SELECT entries.tenant_id, entries.leaf_index, leaf, sealed,
                   ${bytesBefore("entries.tenant_id, entries.leaf_index")}, ${visibleOpening}
              JOIN unnest($1::text[], $2::bigint[]) AS asked (tenant_id, position)
                ON entries.tenant_id = asked.tenant_id AND entries.leaf_index = asked.position) AS read
          WHERE bytes_before < $3 ORDER BY tenant_id, leaf_index`,
};

const servingKeys: Statement = {
  name: "serving_indexes",
  text: `SELECT tenant_id, ${indexColumns} FROM search_keys WHERE tenant_id = ANY ($1) AND serves = 1`,
};
const moveIndexes: Statement = {
  name: "move_search_keys",
  text: `UPDATE search_keys SET filled_to = next.filled_to
           FROM unnest($1::text[], $2::integer[], $3::bigint[]) AS next (tenant_id, generation, filled_to)
          WHERE search_keys.tenant_id = next.tenant_id AND search_keys.generation = next.generation`,
};

/** Whether to skip locked heads, or to wait for all of them. */
export type HeadLock = keyof typeof locks;

/** Locks heads until the transaction ends, and reads them. */
export async function lockHeads(
  queries: Queries,
  tenants: readonly TenantId[],
  lock: HeadLock,
): Promise<ReadonlyMap<TenantId, StoredHead>> {
  const { rows } = await queries.query(locks[lock], [textArray(tenants)]);
  return new Map(rows.map((row) => [row.tenant_id as TenantId, toHead(row)]));
}

/** Finds the answers kept under scopes, with their records, by tenant. */
export async function findKeptOfMany(
  queries: Queries,
  asked: readonly { readonly tenantId: TenantId; readonly scope: string }[],
): Promise<readonly Row[]> {
  if (asked.length === 0) return [];
  const scopes = asked.map(({ scope }) => Buffer.from(scope, "hex"));
  return (await queries.query(findKept, [textArray(asked.map(({ tenantId }) => tenantId)), byteaArray(scopes)])).rows;
}

/** A tile of a tenant. */
export interface OwnTile extends Pick<TileCoordinate, "level" | "index"> {
  readonly tenantId: TenantId;
}

/** Reads tiles of many tenants; a missing tile is undefined. */
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

export interface OwnRows extends AddedRows {
  readonly head: StoredHead;
  readonly log: LogState;
  readonly lastRecordedAtMs: number;
}

/** Writes tenants' rows, under the locks of their heads. Resolves with whether every head was unchanged. */
export async function writeOfMany(
  transaction: Transaction,
  parts: readonly OwnRows[],
  nowMs: number,
): Promise<boolean> {
  const moves = parts.flatMap(({ log, search: { move } }) => (move === undefined ? [] : [{ log, move }]));
  const [moved] = await Promise.all([
    transaction.query(moveHeads, headColumnsOf(parts)),
    transaction.insert(
      tables.entries,
      parts.flatMap(({ log: { tenantId }, entries }) =>
        entries.map(({ leafIndex, recordId, leaf, sealed }) => [tenantId, leafIndex, recordId, leaf, sealed]),
      ),
    ),
    transaction.insert(
      tables.openings,
      parts.flatMap(({ log: { tenantId }, entries }) =>
        entries.map(({ recordId, opening }) => [tenantId, recordId, opening]),
      ),
    ),
    transaction.insert(
      tables.tiles,
      parts.flatMap(({ log: { tenantId }, tiles }) =>
        tiles.map(({ level, index, hashes }) => [tenantId, level, index, hashes]),
      ),
    ),
    keepCalls(transaction, parts, nowMs),
    addSegments(
      transaction,
      parts.flatMap(({ log: { tenantId }, search }) => search.segments.map((segment) => ({ tenantId, ...segment }))),
    ),
    moves.length === 0
      ? undefined
      : transaction.query(moveIndexes, [
          textArray(moves.map(({ log }) => log.tenantId)),
          integerArray(moves.map(({ move }) => move.generation)),
          bigintArray(moves.map(({ move }) => move.filledTo)),
        ]),
  ]);
  return moved.count === parts.length;
}

/** A write that changes nothing: its commit makes durable what was read before. */
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

async function keepCalls(transaction: Transaction, parts: readonly OwnRows[], nowMs: number): Promise<void> {
  const calling = parts.filter(({ calls }) => calls.length > 0);
  if (calling.length === 0) return;
  const rows = calling.flatMap(({ log: { tenantId, size }, calls }) =>
    calls.map(({ scope, leafIndex, sealed }) => [tenantId, scope, leafIndex, size, nowMs, sealed]),
  );
  const perTenant = purgedPerInsert * Math.ceil(rows.length / calling.length);
  await Promise.all([
    transaction.query(purge, [textArray(calling.map(({ log }) => log.tenantId)), oldestKeptMs(nowMs), perTenant]),
    transaction.insert(tables.keptAnswers, rows),
  ]);
}

/** The search indexes in use, by tenant. */
export async function indexesOfMany(
  queries: Queries,
  tenants: readonly TenantId[],
): Promise<ReadonlyMap<TenantId, IndexGeneration>> {
  const { rows } = await queries.query(servingKeys, [textArray(tenants)]);
  return new Map(rows.map((row) => [row.tenant_id as TenantId, toIndex(row)]));
}

/** As `readToIndex`, for many tenants on one server, with one bound of bytes. May read none of some tenants. */
export async function readToIndexOfMany(
  queries: Queries,
  ranges: readonly (LeafRange & { readonly tenantId: TenantId })[],
  maxBytes: number,
): Promise<ReadonlyMap<TenantId, ReadRecords>> {
  if (ranges.length === 0) return new Map();
  const asked = ranges.flatMap(({ tenantId, first, end }) =>
    Array.from({ length: end - first }, (_, position) => ({ tenantId, leaf: first + position })),
  );
  const { rows } = await queries.query(entriesOfMany, [
    textArray(asked.map(({ tenantId }) => tenantId)),
    bigintArray(asked.map(({ leaf }) => leaf)),
    maxBytes,
  ]);
  const byTenant = Map.groupBy(rows, ({ tenant_id }) => tenant_id as TenantId);
  return new Map([...byTenant].map(([tenantId, own]) => [tenantId, toRecords(0, own)]));
}
