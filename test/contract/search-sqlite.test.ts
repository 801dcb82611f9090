import { openConnection } from "../../src/stores/files/connection.ts";
import { StoredSearchIndexer } from "../../src/stores/sql/search-indexer.ts";
import { removeFromSegments } from "../../src/stores/sql/search-segments.ts";
import { openSqliteArchive, openSqliteDatabase } from "../../src/stores/sqlite/operators.ts";
import { SqliteQueries } from "../../src/stores/sqlite/queries.ts";
import { seededRandom, tenant } from "./ledger-records.ts";
import { sqliteFixture } from "./ledger-sqlite-fixture.ts";
import { type SearchFixture, searchSuite } from "./search-suite.ts";
import { indexRows, settle } from "./settled-search.ts";

async function searchFixture(): Promise<SearchFixture> {
  const fixture = sqliteFixture();
  const random = seededRandom("indexer");
  return {
    ...fixture,
    archive: async () => openSqliteArchive(fixture.store),
    indexer: async (pause) => new StoredSearchIndexer(openSqliteDatabase(fixture.store), { random, pause }),
    async loseKeys(tenantId) {
      fixture.query("DELETE FROM search_keys WHERE tenant_id = ?", tenantId);
    },
    async countTerms(tenantId, leafIndex) {
      const rows = await indexRows(fixture.query, tenantId);
      return rows.filter((row) => leafIndex === undefined || row.leafIndex === leafIndex).length;
    },
    async storedTerms(tenantId) {
      return Buffer.concat((await indexRows(fixture.query, tenantId)).map(({ term }) => term));
    },
    settle: async () => settle(fixture.path),
    async removeTerms(tenantId, leafIndex) {
      const connection = openConnection({ path: fixture.path, readOnly: false, busyTimeoutMs: 5_000 });
      try {
        await removeFromSegments(new SqliteQueries(connection), tenant(tenantId), [leafIndex]);
      } finally {
        connection.close();
      }
    },
  };
}

searchSuite("SQLite", searchFixture);
