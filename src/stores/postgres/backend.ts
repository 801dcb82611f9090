/** PostgreSQL, for the service and its commands. */
import type { PostgresTarget } from "../../base/postgres-url.ts";
import type { StoreBackend, StoreSettings } from "../sql/backend.ts";
import { openPostgresStores } from "./open-ledger.ts";
import { openPostgresArchive, openPostgresDatabase } from "./operators.ts";
import { migratePostgres } from "./schema/migrate.ts";
import { migrations } from "./schema/schema.ts";

export function postgresBackend(
  target: PostgresTarget,
  { storePasswordFile: passwordFile, anchor: anchorPath }: Pick<StoreSettings, "anchor" | "storePasswordFile">,
): StoreBackend {
  const settings = { target, passwordFile, anchorPath };
  return {
    openStores: ({ storePoolSize: poolSize, storeTimeoutMs: timeoutMs, ledgerKey, ledgerOrigin }, machine) =>
      openPostgresStores({
        ...{ ...settings, poolSize, timeoutMs, keyPath: ledgerKey, originPrefix: ledgerOrigin },
        ...machine,
      }),
    openArchive: () => openPostgresArchive(settings),
    openDatabase: (purpose) => openPostgresDatabase(settings, purpose),
    async migrate({ random, distributed }) {
      const applied = await migratePostgres({ target, passwordFile, random, distributed });
      return { version: migrations.length, applied };
    },
    async backUp() {
      throw new Error("PostgreSQL is backed up by its own means, pg_basebackup and its archive of write-ahead logs.");
    },
  };
}
