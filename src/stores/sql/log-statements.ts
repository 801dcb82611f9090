/** Statements of a batch: one per table, whatever the number of its records. Under the lock of the log's head. */
import type { TenantId } from "../../base/ids.ts";
import type { SealedEntry } from "../../ledger/append/sequence.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import type { WrittenTile } from "../../ledger/tlog/right-edge.ts";
import type { StoredHead } from "./log-rows.ts";
import type { Queries, Statement, Transaction } from "./queries.ts";
import { tables } from "./tables.ts";

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
const touchHead: Statement = {
  name: "touch_head",
  text: "UPDATE log_heads SET last_recorded_at_ms = last_recorded_at_ms WHERE tenant_id = $1",
};
/** Returns the statement that keeps the name of a new log, and its values. */
export function namingLog(name: string, tenantId: TenantId): [Statement, readonly unknown[]] {
  return [nameLog, [name, tenantId]];
}

/** Opens a log. Resolves with false if the tenant has one already. */
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

/** Compare-and-swap of the head. Resolves with false if the head has changed. */
export async function advanceHead(
  queries: Queries,
  head: StoredHead,
  log: LogState,
  { lastRecordedAtMs, registeredTo }: Pick<StoredHead, "lastRecordedAtMs" | "registeredTo">,
): Promise<boolean> {
  const values = [log.tenantId, log.size, log.root, lastRecordedAtMs, registeredTo, head.size, head.root];
  return (await queries.query(moveHead, values)).count === 1;
}

/** A write that changes nothing: its commit makes durable what was read before. */
export async function touch(queries: Queries, tenantId: TenantId): Promise<void> {
  await queries.query(touchHead, [tenantId]);
}

export async function insertRecords(
  transaction: Transaction,
  tenantId: TenantId,
  entries: readonly SealedEntry[],
): Promise<void> {
  await Promise.all([
    transaction.insert(
      tables.entries,
      entries.map(({ leafIndex, recordId, leaf, sealed }) => [tenantId, leafIndex, recordId, leaf, sealed]),
    ),
    transaction.insert(
      tables.openings,
      entries.map(({ recordId, opening }) => [tenantId, recordId, opening]),
    ),
  ]);
}

export function upsertTiles(
  transaction: Transaction,
  tenantId: TenantId,
  tiles: readonly WrittenTile[],
): Promise<void> {
  return transaction.insert(
    tables.tiles,
    tiles.map(({ level, index, hashes }) => [tenantId, level, index, hashes]),
  );
}
