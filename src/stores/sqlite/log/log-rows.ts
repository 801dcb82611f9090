/** The statements on logs that reading and writing share. */
import type { TenantId } from "../../../base/ids.ts";
import type { TimedLog } from "../../../ledger/ports/store.ts";
import type { WrittenTile } from "../../../ledger/tlog/right-edge.ts";
import { nodesOfTiles } from "../../../ledger/tlog/tile-nodes.ts";
import { type Hash, Tree } from "../../../ledger/tlog/tree.ts";
import { acceptanceQuery, acceptanceValues } from "../../store-checks.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";

/** A head with what only the writer needs. */
export interface StoredHead extends TimedLog {
  /** The index of registrations has the leaves before this one. */
  readonly registeredTo: number;
}

const headColumns = "tenant_id, origin, size, root, last_recorded_at_ms, registered_to";

export class LogRows {
  readonly #headOfTenant: SqliteStatement;
  readonly #headByName: SqliteStatement;
  readonly #heads: SqliteStatement;
  readonly #tile: SqliteStatement;

  constructor(connection: SqliteConnection) {
    this.#headOfTenant = connection.prepare(`SELECT ${headColumns} FROM log_heads WHERE tenant_id = ?`);
    this.#headByName = connection.prepare(`SELECT ${headColumns} FROM log_heads WHERE substr(origin, -32) = ?`);
    this.#heads = connection.prepare(`SELECT ${headColumns} FROM log_heads ORDER BY tenant_id`);
    this.#tile = connection.prepare("SELECT hashes FROM tiles WHERE tenant_id = ? AND level = ? AND tile_index = ?");
  }

  headOfTenant(tenantId: TenantId): StoredHead | undefined {
    const row = this.#headOfTenant.get(tenantId);
    return row && headOf(row);
  }

  headByName(name: string): TimedLog | undefined {
    const row = this.#headByName.get(name);
    return row && headOf(row);
  }

  /** Every head, by tenant. */
  *heads(): Generator<TimedLog> {
    for (const row of this.#heads.iterate()) yield headOf(row);
  }

  /** Hashes of a tile, as many as it has; undefined where there is none. */
  tile(tenantId: TenantId, level: number, index: number): Uint8Array | undefined {
    return this.#tile.get(tenantId, level, index)?.hashes as Uint8Array | undefined;
  }

  /** The log as it was at a size that it has reached. Its methods throw `MissingTileError` where a tile is gone. */
  tree(tenantId: TenantId, size: number): Tree {
    return new Tree(
      size,
      nodesOfTiles((level, index) => this.tile(tenantId, level, index)),
    );
  }

  rootAt(tenantId: TenantId, size: number): Hash {
    return this.tree(tenantId, size).root();
  }
}

function headOf(row: Record<string, unknown>): StoredHead {
  return {
    tenantId: row.tenant_id as TenantId,
    origin: row.origin as string,
    size: row.size as number,
    root: row.root as Uint8Array,
    lastRecordedAtMs: row.last_recorded_at_ms as number,
    registeredTo: row.registered_to as number,
  };
}

/** Writes tiles. A tile that is being filled is written again, longer; what it had stays. */
export class TileWriter {
  readonly #statement: SqliteStatement;

  constructor(connection: SqliteConnection) {
    this.#statement = connection.prepare(
      `INSERT INTO tiles (tenant_id, level, tile_index, hashes) VALUES (?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET hashes = excluded.hashes`,
    );
  }

  write(tenantId: TenantId, tiles: readonly WrittenTile[]): void {
    for (const { level, index, hashes } of tiles) this.#statement.run(tenantId, level, index, hashes);
  }
}

/** Whether the log says that an operator accepted its newest time. */
export function isTimeAccepted(connection: SqliteConnection, head: TimedLog): boolean {
  const sql = acceptanceQuery("?1", (parameter) => `instr(leaf, ?${parameter})`);
  return connection.prepare(sql).get(...acceptanceValues(head)) !== undefined;
}
