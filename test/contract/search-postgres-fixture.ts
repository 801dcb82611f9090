/** Databases of one server, for what is searched. */
import { Client } from "pg";
import { clientOptions } from "../../src/stores/postgres/connection/client-options.ts";
import { queriesOf } from "../../src/stores/postgres/connection/connection.ts";
import { openPostgresArchive, openPostgresDatabase } from "../../src/stores/postgres/operators.ts";
import { StoredSearchIndexer } from "../../src/stores/sql/search-indexer.ts";
import { removeFromSegments } from "../../src/stores/sql/search-segments.ts";
import type { PostgresFixture } from "./ledger-postgres-fixture.ts";
import { seededRandom, tenant } from "./ledger-records.ts";
import type { SearchFixture } from "./search-suite.ts";
import { indexRows, settlePostgres } from "./settled-search.ts";

export function searchFixture(fixture: PostgresFixture): SearchFixture {
  const { target, query } = fixture;
  const random = seededRandom("indexer");
  return {
    ...fixture,
    archive: () => openPostgresArchive({ target, anchorPath: undefined }),
    indexer: async (pause) =>
      new StoredSearchIndexer(await openPostgresDatabase({ target, anchorPath: undefined }), { random, pause }),
    async loseKeys(tenantId) {
      await query(`DELETE FROM search_keys WHERE tenant_id = '${tenantId}'`);
    },
    async countTerms(tenantId, leafIndex) {
      const rows = await indexRows(query, tenantId);
      return rows.filter((row) => leafIndex === undefined || row.leafIndex === leafIndex).length;
    },
    async storedTerms(tenantId) {
      return Buffer.concat((await indexRows(query, tenantId)).map(({ term }) => term));
    },
    settle: () => settlePostgres(target),
    async removeTerms(tenantId, leafIndex) {
      const client = new Client(clientOptions({ target }, 0));
      await client.connect();
      await removeFromSegments(queriesOf(client), tenant(tenantId), [leafIndex]).finally(() => client.end());
    },
  };
}
