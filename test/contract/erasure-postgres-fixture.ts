/** Databases of one server, for what is erased and held. */
import { setImmediate } from "node:timers/promises";
import {
  openPostgresAdministration,
  openPostgresArchive,
  openPostgresDatabase,
} from "../../src/stores/postgres/operators.ts";
import { StoredSearchIndexer } from "../../src/stores/sql/search-indexer.ts";
import { type ErasureFixture, waiting } from "./erasure-suite.ts";
import type { PostgresFixture } from "./ledger-postgres-fixture.ts";
import type { RegistrationFixture } from "./registration-suite.ts";

const backedUp = ["openings", "kept_answers", "search_segments"];

export function registrationFixture(fixture: PostgresFixture): RegistrationFixture {
  return { ...erasureFixture(fixture), query: fixture.query, locksLogs: true };
}

export function erasureFixture(fixture: PostgresFixture): ErasureFixture {
  const { target, query } = fixture;
  return {
    ...fixture,
    overwrites: false,
    administration: (machine) => openPostgresAdministration({ target, anchorPath: undefined, ...machine }),
    archive: () => openPostgresArchive({ target, anchorPath: undefined }),
    indexer: async ({ random, before }) => {
      const database = waiting(await openPostgresDatabase({ target, anchorPath: undefined }), before);
      return new StoredSearchIndexer(database, { random, pause: () => setImmediate() });
    },
    async noteErased(tenantId, recordId, leafIndex, erasureLeafIndex) {
      await query(`INSERT INTO erasures VALUES ('${tenantId}', '${recordId}', ${leafIndex}, ${erasureLeafIndex})`);
    },
    async backUpOpenings() {
      for (const table of backedUp) await query(`CREATE TABLE backup_${table} AS SELECT * FROM ${table}`);
      return async () => {
        await query(
          `DELETE FROM kept_answers; DELETE FROM search_segments
             WHERE (tenant_id, first_leaf) IN (SELECT tenant_id, first_leaf FROM backup_search_segments)`,
        );
        for (const table of backedUp)
          await query(`INSERT INTO ${table} SELECT * FROM backup_${table} ON CONFLICT DO NOTHING`);
      };
    },
  };
}
