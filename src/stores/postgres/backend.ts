/** PostgreSQL, for the service and its commands. */
import { systemClock } from "../../base/clock.ts";
import type { PostgresTarget } from "../../base/postgres-url.ts";
import type { StoreBackend, StoreSettings } from "../sql/backend.ts";

export function postgresBackend(
  target: PostgresTarget,
  { storePasswordFile: passwordFile, anchor: anchorPath }: Pick<StoreSettings, "anchor" | "storePasswordFile">,
): StoreBackend {
  return {
    async openStores({ storePoolSize, storeTimeoutMs, ledgerKey, ledgerOrigin }, machine) {
      const { openPostgresStores } = await import("./open-ledger.ts");
      return openPostgresStores({
        target,
        passwordFile,
        poolSize: storePoolSize,
        timeoutMs: storeTimeoutMs,
        keyPath: ledgerKey,
        anchorPath,
        originPrefix: ledgerOrigin,
        ...machine,
      });
    },
    async openArchive() {
      const { openPostgresArchive } = await import("./operators.ts");
      return openPostgresArchive({ target, passwordFile, anchorPath, clock: systemClock });
    },
    async openAdministration(machine) {
      const { openPostgresAdministration } = await import("./operators.ts");
      return openPostgresAdministration({ target, passwordFile, anchorPath, ...machine });
    },
    async openDatabase(purpose) {
      const { openPostgresDatabase } = await import("./operators.ts");
      return openPostgresDatabase({ target, passwordFile, anchorPath }, purpose);
    },
    async migrate({ random, distributed }) {
      const { migratePostgres } = await import("./schema/migrate.ts");
      const { migrations } = await import("./schema/schema.ts");
      return {
        version: migrations.length,
        applied: await migratePostgres({ target, passwordFile, random, distributed }),
      };
    },
    async backUp() {
      throw new Error("PostgreSQL is backed up by its own means, pg_basebackup and its archive of write-ahead logs.");
    },
  };
}
