/** SQLite files in a directory of their own, for the contract of erasure. */
import { setImmediate } from "node:timers/promises";
import type { RecordsAdministration } from "../../src/ledger/ports/records-administration.ts";
import { StoredSearchIndexer } from "../../src/stores/sql/search-indexer.ts";
import { sqliteBackend } from "../../src/stores/sqlite/backend.ts";
import {
  openSqliteAdministration,
  openSqliteDatabase,
  type SqliteAdministrationOptions,
} from "../../src/stores/sqlite/operators.ts";
import { type ErasureFixture, waiting } from "./erasure-suite.ts";
import { type SqliteFixture, sqliteFixture } from "./ledger-sqlite-fixture.ts";

export interface SqliteErasureFixture extends ErasureFixture, Omit<SqliteFixture, keyof ErasureFixture> {
  readonly open: SqliteFixture["open"];
  administration(
    options: Pick<SqliteAdministrationOptions, "clock" | "random"> & Partial<SqliteAdministrationOptions>,
  ): Promise<RecordsAdministration>;
}

const backedUp = ["openings", "kept_answers", "search_segments"];

export function sqliteErasureFixture(): SqliteErasureFixture {
  const fixture = sqliteFixture();
  const { path, anchorPath } = fixture.store;
  return {
    ...fixture,
    overwrites: true,
    administration: async (options) =>
      openSqliteAdministration({ path, anchorPath, pause: () => setImmediate(), ...options }),
    archive: () => sqliteBackend(path, { anchor: anchorPath }).openArchive(),
    indexer: async ({ random, before }) => {
      const database = waiting(openSqliteDatabase(fixture.store), before);
      return new StoredSearchIndexer(database, { random, pause: () => setImmediate() });
    },
    async noteErased(tenantId, recordId, leafIndex, erasureLeafIndex) {
      const sql = `INSERT INTO erasures VALUES (?, ?, ${leafIndex}, ${erasureLeafIndex})`;
      fixture.query(sql, tenantId, recordId);
    },
    async backUpOpenings() {
      for (const table of backedUp) fixture.query(`CREATE TABLE backup_${table} AS SELECT * FROM ${table}`);
      return async () => {
        for (const table of backedUp) fixture.query(`INSERT OR REPLACE INTO ${table} SELECT * FROM backup_${table}`);
      };
    },
  };
}
