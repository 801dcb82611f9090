/** Stores as commands open them to change their records and indexes. */
import type { TenantId } from "../../src/base/ids.ts";
import { openPostgresDatabase, type PostgresPlace } from "../../src/stores/postgres/backend.ts";
import type { Database } from "../../src/stores/sql/queries.ts";
import {
  type AdministrationMachine,
  administer,
  type RecordsAdministration,
} from "../../src/stores/sql/records-administration.ts";
import { type RebuildOptions, rebuildIndexes } from "../../src/stores/sql/search-indexer.ts";
import { openSqliteDatabase } from "../../src/stores/sqlite/backend.ts";
import type { StorePaths } from "../../src/stores/sqlite/paths.ts";

type Machine = Omit<AdministrationMachine, "pause"> & Partial<AdministrationMachine>;

export interface SqliteAdministrationOptions extends Pick<StorePaths, "path" | "anchorPath">, Machine {
  /** Replaces `openConnection`. */
  readonly openConnection?: Parameters<typeof openSqliteDatabase>[2];
}

export async function openSqliteAdministration(options: SqliteAdministrationOptions): Promise<RecordsAdministration> {
  return administer(openSqliteDatabase(options, "upkeep", options.openConnection), {
    pause: async () => {},
    ...options,
  });
}

export async function openPostgresAdministration(options: PostgresPlace & Machine): Promise<RecordsAdministration> {
  return administer(await openPostgresDatabase(options), { pause: async () => {}, ...options });
}

export type Indexer = ReturnType<typeof indexerOver>;

/** Rebuilds indexes in a database, which it closes. */
export function indexerOver(database: Database, options: Omit<RebuildOptions, "onProgress">) {
  return {
    rebuild: (tenantId: TenantId, onProgress: (leaves: number) => void) =>
      rebuildIndexes(database, tenantId, { ...options, onProgress }),
    close: () => database.close(),
  };
}
