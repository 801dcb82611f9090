/** Databases of one server, for what is searched. */
import type { SearchTerm } from "../../src/ledger/ports/search.ts";
import { StoredTerms } from "../../src/ledger/search/search-index.ts";
import { PostgresArchive } from "../../src/stores/postgres/archive.ts";
import { PostgresSearchIndexer } from "../../src/stores/postgres/search/search-indexer.ts";
import type { PostgresFixture } from "./ledger-postgres-fixture.ts";
import { manualClock, seededRandom } from "./ledger-records.ts";
import type { SearchFixture } from "./search-suite.ts";
import { indexRows, settlePostgres } from "./settled-search-postgres.ts";

export function searchFixture(fixture: PostgresFixture): SearchFixture {
  const { target, query } = fixture;
  const clock = manualClock();
  const random = seededRandom("indexer");
  return {
    ...fixture,
    archive: () => PostgresArchive.open({ target, anchorPath: undefined, clock }),
    indexer: (pause) => PostgresSearchIndexer.open({ target, clock, random, pause }),
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
    async ageIndex(tenantId) {
      await settlePostgres(target);
      const [row] = await query(`SELECT encode(key, 'hex') AS key FROM search_keys WHERE tenant_id = '${tenantId}'`);
      const key = Buffer.from(String(row?.key), "hex");
      const stored = new StoredTerms();
      const values = ["label", "request_id"].map((field) => ({
        field,
        value: field === "label" ? "pii" : "request-1",
      }));
      for (const term of [...values, { field: "label", value: "other" }] as SearchTerm[]) {
        const bytes = Buffer.from(stored.of(key, term)).toString("hex");
        await query(`DELETE FROM search_terms WHERE tenant_id = '${tenantId}' AND term = '\\x${bytes}'`);
      }
      await query(`UPDATE search_keys SET fields = 1 WHERE tenant_id = '${tenantId}'`);
    },
    settle: () => settlePostgres(target),
    async removeTerms(tenantId, leafIndex) {
      await query(`DELETE FROM search_terms WHERE tenant_id = '${tenantId}' AND leaf_index = ${leafIndex}`);
    },
  };
}
