/** The embedded store, for the service and its commands. */
import { existsSync } from "node:fs";
import type { StoreBackend, StoreSettings } from "../sql/backend.ts";
import { anchorPathOf } from "./paths.ts";

/** How long a migration waits for a concurrent migration of the same file. */
const migrationBusyTimeoutMs = 60_000;

export function sqliteBackend(path: string, { anchor }: Pick<StoreSettings, "anchor">): StoreBackend {
  const paths = { path, anchorPath: anchorPathOf(path, anchor) };
  return {
    async openStores({ ledgerKey: keyPath, ledgerOrigin: originPrefix }, machine) {
      const { openSqliteStores } = await import("./open-ledger.ts");
      return openSqliteStores({ ...paths, keyPath, originPrefix, ...machine });
    },
    async openArchive() {
      requireFile(path);
      return (await import("./operators.ts")).openSqliteArchive(paths);
    },
    async openAdministration(machine) {
      requireFile(path);
      return (await import("./operators.ts")).openSqliteAdministration({ ...paths, ...machine });
    },
    async openDatabase(purpose) {
      requireFile(path);
      return (await import("./operators.ts")).openSqliteDatabase(paths, purpose);
    },
    async migrate({ random, distributed }) {
      if (distributed) throw new Error("--distributed needs a database: a file is on one machine.");
      const { migrateSqlite } = await import("./migrate.ts");
      const { migrations } = await import("./schema.ts");
      const applied = migrateSqlite({ path, random, busyTimeoutMs: migrationBusyTimeoutMs });
      return { version: migrations.length, applied };
    },
    async backUp(target) {
      requireFile(path);
      const { backUpSqlite } = await import("./backup.ts");
      return backUpSqlite({ ...paths, target });
    },
  };
}

function requireFile(path: string): void {
  if (!existsSync(path)) throw new Error(`${path} is missing`);
}
