import { SqliteArchive } from "../../src/stores/sqlite/archive.ts";
import { openConnection } from "../../src/stores/sqlite/connection.ts";
import { SearchFill } from "../../src/stores/sqlite/search/search-fill.ts";
import { SqliteSearchIndexer } from "../../src/stores/sqlite/search/search-indexer.ts";
import { SearchWriter } from "../../src/stores/sqlite/search/search-writer.ts";
import { seededRandom, tenant } from "./ledger-records.ts";
import { sqliteFixture } from "./ledger-sqlite-fixture.ts";
import { type SearchFixture, searchSuite } from "./search-suite.ts";
import { settle } from "./settled-search.ts";

async function searchFixture(): Promise<SearchFixture> {
  const fixture = sqliteFixture();
  const random = seededRandom("indexer");
  return {
    ...fixture,
    archive: async () => new SqliteArchive(fixture.store),
    indexer: async (pause) => new SqliteSearchIndexer({ path: fixture.path, random, pause }),
    async loseKeys(tenantId) {
      fixture.query("DELETE FROM search_keys WHERE tenant_id = ?", tenantId);
    },
    async countTerms(tenantId, leafIndex) {
      const rows = fixture.query("SELECT leaf_index FROM search_terms WHERE tenant_id = ?", tenantId);
      return rows.filter((row) => leafIndex === undefined || row.leaf_index === leafIndex).length;
    },
    async storedTerms(tenantId) {
      const rows = fixture.query("SELECT term FROM search_terms WHERE tenant_id = ?", tenantId);
      return Buffer.concat(rows.map(({ term }) => term as Uint8Array));
    },
    async ageIndex(tenantId) {
      for (const row of fixture.query("SELECT generation, key FROM search_keys WHERE tenant_id = ?", tenantId)) {
        const index = {
          generation: row.generation as number,
          key: row.key as Uint8Array,
          edition: 1,
          filledTo: 0,
          fillEnd: 0,
        };
        fixture.query("DELETE FROM search_terms WHERE tenant_id = ?", tenantId);
        fixture.query("UPDATE search_keys SET fields = 1 WHERE tenant_id = ?", tenantId);
        const connection = openConnection({ path: fixture.path, readOnly: false, busyTimeoutMs: 5_000 });
        try {
          new SearchFill(connection, new SearchWriter(connection)).fill(tenant(tenantId), index, 0, 1_000);
        } finally {
          connection.close();
        }
      }
    },
    settle: async () => settle(fixture.path),
    async removeTerms(tenantId, leafIndex) {
      const connection = openConnection({ path: fixture.path, readOnly: false, busyTimeoutMs: 5_000 });
      try {
        new SearchWriter(connection).remove(tenant(tenantId), leafIndex);
      } finally {
        connection.close();
      }
    },
  };
}

searchSuite("SQLite", searchFixture);
