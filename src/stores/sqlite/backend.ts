/** The embedded store, for the service and its commands. */
import { existsSync } from "node:fs";
import type { StoreBackend, StoreSettings } from "../sql/backend.ts";
import { backUpSqlite } from "./backup.ts";
import { migrateSqlite } from "./migrate.ts";
import { openSqliteStores } from "./open-ledger.ts";
import { openSqliteArchive, openSqliteDatabase } from "./operators.ts";
import { anchorPathOf } from "./paths.ts";
import { migrations } from "./schema.ts";

/** How long a migration waits for a concurrent migration of the same file. */
const migrationBusyTimeoutMs = 60_000;

export function sqliteBackend(path: string, { anchor }: Pick<StoreSettings, "anchor">): StoreBackend {
  const paths = { path, anchorPath: anchorPathOf(path, anchor) };
  /** Throws if the file is missing. */
  const there = () => {
    if (!existsSync(path)) throw new Error(`${path} is missing`);
    return paths;
  };
  return {
    openStores: ({ ledgerKey: keyPath, ledgerOrigin: originPrefix }, machine) =>
      openSqliteStores({ ...paths, keyPath, originPrefix, ...machine }),
    openArchive: async () => openSqliteArchive(there()),
    openDatabase: async (purpose) => openSqliteDatabase(there(), purpose),
    async migrate({ random, distributed }) {
      if (distributed) throw new Error("--distributed needs a database: a file is on one machine.");
      return {
        version: migrations.length,
        applied: migrateSqlite({ path, random, busyTimeoutMs: migrationBusyTimeoutMs }),
      };
    },
    backUp: async (target) => backUpSqlite({ ...there(), target }),
  };
}
