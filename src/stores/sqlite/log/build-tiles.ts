/** Brings logs that were written before there were tiles into tiles, and verifies every record on the way. */
import type { TenantId } from "../../../base/ids.ts";
import { parseLeaf } from "../../../ledger/record/leaf.ts";
import { open } from "../../../ledger/record/sealing.ts";
import { RightEdge } from "../../../ledger/tlog/right-edge.ts";
import { tileWidth } from "../../../ledger/tlog/tiles.ts";
import { leafHash } from "../../../ledger/tlog/tree.ts";
import { IncompatibleStoreError } from "../../errors.ts";
import type { SqliteConnection } from "../connection.ts";
import { TileWriter } from "./log-rows.ts";

/**
 * Builds the tiles and the root of every log. Runs in the migration's transaction. Throws `IncompatibleStoreError`
 * that names the log and the first bad leaf where a leaf is missing or does not parse, or a record is not the one that
 * its leaf commits to: a log that is damaged already must not be signed as sound.
 */
export function buildTiles(connection: SqliteConnection): void {
  const heads = [...connection.prepare("SELECT tenant_id, origin, size FROM log_heads").iterate()];
  const setRoot = connection.prepare("UPDATE log_heads SET root = ? WHERE tenant_id = ?");
  for (const { tenant_id, origin, size } of heads) {
    const root = buildLog(connection, tenant_id as TenantId, origin as string, size as number);
    setRoot.run(root, tenant_id as TenantId);
  }
}

function buildLog(connection: SqliteConnection, tenantId: TenantId, origin: string, size: number): Uint8Array {
  const rows = connection.prepare(
    `SELECT leaf_index, leaf, sealed, opening
       FROM entries LEFT JOIN openings USING (tenant_id, record_id)
      WHERE tenant_id = ? ORDER BY leaf_index`,
  );
  const tiles = new TileWriter(connection);
  const edge = new RightEdge();
  for (const row of rows.iterate(tenantId)) {
    if (row.leaf_index !== edge.size) throw unsound(origin, edge.size, "is missing");
    edge.append(leafHash(verified(row, origin, edge.size)));
    // Written now and then, so that a long log does not wait in memory.
    if (edge.size % tileWidth === 0) tiles.write(tenantId, edge.takeTouched());
  }
  if (edge.size !== size) throw unsound(origin, edge.size, `is not the last of ${size}`);
  tiles.write(tenantId, edge.takeTouched());
  return edge.tree().root();
}

/** The leaf of a row whose record, unless it was erased, is the one that the leaf commits to. */
function verified(row: Record<string, unknown>, origin: string, index: number): Uint8Array {
  const leaf = row.leaf as Uint8Array;
  try {
    const { commitment } = parseLeaf(leaf);
    if (row.opening !== null) open(row.sealed as Uint8Array, row.opening as Uint8Array, commitment);
  } catch (cause) {
    throw unsound(origin, index, "does not verify", cause);
  }
  return leaf;
}

function unsound(origin: string, index: number, problem: string, cause?: unknown): IncompatibleStoreError {
  return new IncompatibleStoreError(`log ${origin}: leaf ${index} ${problem}; nothing was migrated`, { cause });
}
