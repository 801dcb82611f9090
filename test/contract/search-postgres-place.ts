/** Databases of one server, for what is searched. */
import { PostgresArchive } from "../../src/stores/postgres/archive.ts";
import { PostgresSearchIndexer } from "../../src/stores/postgres/search-indexer.ts";
import type { PostgresPlace } from "./ledger-postgres-place.ts";
import { manualClock, seededRandom } from "./ledger-records.ts";
import type { SearchPlace } from "./search-suite.ts";

export function searchPlace(place: PostgresPlace): SearchPlace {
  const { target, query } = place;
  const clock = manualClock();
  const random = seededRandom("indexer");
  return {
    ...place,
    archive: () => PostgresArchive.open({ target, anchorPath: undefined, clock }),
    indexer: (pause) => PostgresSearchIndexer.open({ target, clock, random, pause }),
    async loseKeys(tenantId) {
      await query(`DELETE FROM search_keys WHERE tenant_id = '${tenantId}'`);
    },
    async countTerms(tenantId, leafIndex) {
      const rows = await query(`SELECT leaf_index FROM search_terms WHERE tenant_id = '${tenantId}'`);
      return rows.filter((row) => leafIndex === undefined || Number(row.leaf_index) === leafIndex).length;
    },
    async storedTerms(tenantId) {
      const rows = await query(`SELECT term FROM search_terms WHERE tenant_id = '${tenantId}'`);
      return Buffer.concat(rows.map(({ term }) => term as Uint8Array));
    },
    async removeTerms(tenantId, leafIndex) {
      await query(`DELETE FROM search_terms WHERE tenant_id = '${tenantId}' AND leaf_index = ${leafIndex}`);
    },
  };
}
