/** What a batch writes: one statement a table, whatever the number of its records. Under the lock of the log's head. */
import type { TenantId } from "../../../base/ids.ts";
import type { SealedEntry } from "../../../ledger/append/sequence.ts";
import type { LogState } from "../../../ledger/ports/store.ts";
import type { WrittenTile } from "../../../ledger/tlog/right-edge.ts";
import { bigintArray, byteaArray, integerArray, textArray } from "../connection/arrays.ts";
import type { Queries, Statement } from "../connection/connection.ts";
import type { StoredHead } from "./log-rows.ts";

const nameLog: Statement = {
  name: "name_log",
  text: "INSERT INTO log_names (name, tenant_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
};
const openLog: Statement = {
  name: "open_log",
  text: `INSERT INTO log_heads (tenant_id, origin, size, root, last_recorded_at_ms, key_position, registered_to)
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
};
const passOn: Statement = { name: "pass_on_log", text: "UPDATE log_heads SET key_position = $2 WHERE tenant_id = $1" };
const moveHead: Statement = {
  name: "move_head",
  text: `UPDATE log_heads SET size = $2, root = $3, last_recorded_at_ms = $4, registered_to = $5
          WHERE tenant_id = $1 AND size = $6 AND root = $7`,
};
/**
 * The end of a list of columns, and the tables of entries behind it: an opening that a backup brought back, of a record
 * that was erased, is none.
 */
export const visibleOpening = `CASE WHEN erasure_leaf_index IS NULL THEN opening END AS opening
           FROM entries
           LEFT JOIN openings USING (tenant_id, record_id)
           LEFT JOIN erasures USING (tenant_id, record_id)`;
const touchHead: Statement = {
  name: "touch_head",
  text: "UPDATE log_heads SET last_recorded_at_ms = last_recorded_at_ms WHERE tenant_id = $1",
};
/**
 * The rows' tenant comes from the head, which is there and locked. On a cluster the statement then runs where the
 * tenant's rows are; of rows that stand alone the coordinator makes a copy stream, which hides what an error is about.
 */
const insertEntries: Statement = {
  name: "insert_entries",
  text: `INSERT INTO entries (tenant_id, leaf_index, record_id, leaf, sealed)
         SELECT head.tenant_id, entry.*
           FROM log_heads head, unnest($2::bigint[], $3::text[], $4::bytea[], $5::bytea[]) AS entry
          WHERE head.tenant_id = $1`,
};
const insertOpenings: Statement = {
  name: "insert_openings",
  text: `INSERT INTO openings (tenant_id, record_id, opening)
         SELECT head.tenant_id, opening.* FROM log_heads head, unnest($2::text[], $3::bytea[]) AS opening
          WHERE head.tenant_id = $1`,
};
const writeTiles: Statement = {
  name: "write_tiles",
  text: `INSERT INTO tiles (tenant_id, level, tile_index, hashes)
         SELECT head.tenant_id, tile.*
           FROM log_heads head, unnest($2::integer[], $3::bigint[], $4::bytea[]) AS tile
          WHERE head.tenant_id = $1
         ON CONFLICT (tenant_id, level, tile_index) DO UPDATE SET hashes = excluded.hashes`,
};

/** The statement that keeps the name of a log that is about to be opened, and its values. */
export function namingLog(name: string, tenantId: TenantId): [Statement, readonly unknown[]] {
  return [nameLog, [name, tenantId]];
}

/** Opens a log. Resolves with false where the tenant has one already. */
export async function insertHead(
  queries: Queries,
  { tenantId, origin, size, root, lastRecordedAtMs, keyPosition, registeredTo }: StoredHead,
): Promise<boolean> {
  const values = [tenantId, origin, size, root, lastRecordedAtMs, keyPosition, registeredTo];
  return (await queries.query(openLog, values)).count === 1;
}

/** Notes that the key at this position signs the log from its newest leaf on. */
export async function passOnLog(queries: Queries, tenantId: TenantId, keyPosition: number): Promise<void> {
  await queries.query(passOn, [tenantId, keyPosition]);
}

/** Compare-and-swap of the head. Resolves with false where it is not what it was. */
export async function advanceHead(
  queries: Queries,
  head: StoredHead,
  log: LogState,
  { lastRecordedAtMs, registeredTo }: Pick<StoredHead, "lastRecordedAtMs" | "registeredTo">,
): Promise<boolean> {
  const values = [log.tenantId, log.size, log.root, lastRecordedAtMs, registeredTo, head.size, head.root];
  return (await queries.query(moveHead, values)).count === 1;
}

/** A write that changes nothing: the commit that follows is as durable as any, and so is all that was read before. */
export async function touch(queries: Queries, tenantId: TenantId): Promise<void> {
  await queries.query(touchHead, [tenantId]);
}

export async function insertRecords(
  queries: Queries,
  tenantId: TenantId,
  entries: readonly SealedEntry[],
): Promise<void> {
  const recordIds = textArray(entries.map(({ recordId }) => recordId));
  const rows = [
    bigintArray(entries.map(({ leafIndex }) => leafIndex)),
    recordIds,
    byteaArray(entries.map(({ leaf }) => leaf)),
    byteaArray(entries.map(({ sealed }) => sealed)),
  ];
  await Promise.all([
    queries.query(insertEntries, [tenantId, ...rows]),
    queries.query(insertOpenings, [tenantId, recordIds, byteaArray(entries.map(({ opening }) => opening))]),
  ]);
}

/** A tile that is being filled is written again, longer; what it had stays. */
export async function upsertTiles(queries: Queries, tenantId: TenantId, tiles: readonly WrittenTile[]): Promise<void> {
  const levels = integerArray(tiles.map(({ level }) => level));
  const indices = bigintArray(tiles.map(({ index }) => index));
  await queries.query(writeTiles, [tenantId, levels, indices, byteaArray(tiles.map(({ hashes }) => hashes))]);
}
