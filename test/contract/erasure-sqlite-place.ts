/** SQLite files in a directory of their own, for the contract of erasure. */
import { setImmediate } from "node:timers/promises";
import { sqliteBackend } from "../../src/stores/sqlite/backend.ts";
import { SqliteKeeper, type SqliteKeeperOptions } from "../../src/stores/sqlite/erasure/keeper.ts";
import { SqliteSearchIndexer } from "../../src/stores/sqlite/search/search-indexer.ts";
import type { ErasurePlace } from "./erasure-suite.ts";
import { type SqlitePlace, sqlitePlace } from "./ledger-sqlite-place.ts";

export interface SqliteErasurePlace extends ErasurePlace, Omit<SqlitePlace, keyof ErasurePlace> {
  readonly open: SqlitePlace["open"];
  keeper(options: Pick<SqliteKeeperOptions, "clock" | "random"> & Partial<SqliteKeeperOptions>): Promise<SqliteKeeper>;
}

const backedUp = ["openings", "kept_answers", "search_terms"];

export function sqliteErasurePlace(): SqliteErasurePlace {
  const place = sqlitePlace();
  const { path, anchorPath } = place.store;
  return {
    ...place,
    overwrites: true,
    keeper: async (options) => new SqliteKeeper({ path, anchorPath, pause: () => setImmediate(), ...options }),
    archive: () => sqliteBackend(path, { anchor: anchorPath }).openArchive(),
    indexer: async ({ random }) => new SqliteSearchIndexer({ path, random, pause: () => setImmediate() }),
    async noteErased(tenantId, recordId, leafIndex, erasureLeafIndex) {
      const sql = `INSERT INTO erasures VALUES (?, ?, ${leafIndex}, ${erasureLeafIndex})`;
      place.query(sql, tenantId, recordId);
    },
    async backUpOpenings() {
      for (const table of backedUp) place.query(`CREATE TABLE backup_${table} AS SELECT * FROM ${table}`);
      return async () => {
        for (const table of backedUp) place.query(`INSERT OR REPLACE INTO ${table} SELECT * FROM backup_${table}`);
      };
    },
  };
}
