/** SQLite files in a directory of their own. */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Purpose } from "../../src/stores/sql/backend.ts";
import { openSqliteDatabase, sqliteBackend } from "../../src/stores/sqlite/backend.ts";
import { openSqliteStores, type SqliteLedgerOptions } from "../../src/stores/sqlite/open-ledger.ts";
import { folderForTest } from "../harness/folder.ts";
import { storeIn } from "./ledger-records.ts";
import { fixtureOver } from "./store-fixture.ts";

type OpenOptions = Pick<SqliteLedgerOptions, "clock" | "random"> & Partial<SqliteLedgerOptions>;

export type SqliteFixture = ReturnType<typeof sqliteFixture>;

/** @param directory default: one of the test that runs */
export function sqliteFixture(directory = folderForTest("ledger")) {
  const store = storeIn(join(directory, "data"));
  const { path, anchorPath, keyPath } = store;
  const fixture = fixtureOver({
    kind: "SQLite" as const,
    keyPath,
    query: queriesOf(path),
    blob: (hex: string) => `x'${hex}'`,
    openStores: (options: OpenOptions) =>
      openSqliteStores({ ...store, originPrefix: "ledger.example/logs", ...options }),
    archive: () => sqliteBackend(path, { anchor: anchorPath }).openArchive(),
    database: async (purpose?: Purpose) => openSqliteDatabase(store, purpose),
  });
  return {
    ...fixture,
    path,
    store,
    queryAnchor: queriesOf(anchorPath),
    /** Copies databases of the closed store; what it returns puts them back. */
    backUp(...paths: readonly string[]): () => void {
      const copies = paths.map((each) => [each, readFileSync(each)] as const);
      return () => {
        for (const [each, bytes] of copies) {
          for (const suffix of ["-wal", "-shm"]) rmSync(each + suffix, { force: true });
          writeFileSync(each, bytes);
        }
      };
    },
    /** Audits every log, and throws if anything is wrong. */
    async verify(): Promise<void> {
      for (const row of fixture.query("SELECT tenant_id FROM log_heads")) {
        const { problem } = await fixture.audit(row.tenant_id as string);
        if (problem !== undefined) throw new Error(`${row.tenant_id}: ${problem.message}`);
      }
    },
  };
}

/** Runs each statement on a connection of its own. */
function queriesOf(path: string) {
  return (sql: string, ...parameters: readonly string[]): Record<string, unknown>[] => {
    using database = new DatabaseSync(path, { timeout: 5_000 });
    return database.prepare(sql).all(...parameters);
  };
}
