/** Stores as commands open them to change their records. */
import { openPostgresDatabase, type PostgresPlace } from "../../src/stores/postgres/backend.ts";
import {
  type AdministrationMachine,
  administer,
  type RecordsAdministration,
} from "../../src/stores/sql/records-administration.ts";
import { openSqliteDatabase } from "../../src/stores/sqlite/backend.ts";
import type { StorePaths } from "../../src/stores/sqlite/paths.ts";

type Machine = Omit<AdministrationMachine, "pause"> & Partial<AdministrationMachine>;

export async function openSqliteAdministration(options: StorePaths & Machine): Promise<RecordsAdministration> {
  return administer(openSqliteDatabase(options), { pause: async () => {}, ...options });
}

export async function openPostgresAdministration(options: PostgresPlace & Machine): Promise<RecordsAdministration> {
  return administer(await openPostgresDatabase(options), { pause: async () => {}, ...options });
}
