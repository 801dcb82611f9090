import type { TenantId } from "../../../base/ids.ts";
import type { WrittenTile } from "../../../ledger/tlog/right-edge.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";

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
