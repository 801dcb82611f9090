/** The embedded store, for the service and its commands. */
import { existsSync, statSync } from "node:fs";
import { openAnchorOf } from "../files/anchor.ts";
import {
  commandBusyTimeoutMs,
  openConnection,
  opened,
  passiveCheckpoint,
  readStoreId,
  type SqliteConnection,
  sealing,
} from "../files/connection.ts";
import { archiveOver, type OperatorArchive } from "../sql/archive.ts";
import type { Purpose, StoreBackend, StoreDatabase, StoreSettings } from "../sql/backend.ts";
import { backUpSqlite } from "./backup.ts";
import { toReported } from "./errors.ts";
import { hideErased, readNotedErasures } from "./noted-erasures.ts";
import { openSqliteStores } from "./open-ledger.ts";
import { type StorePaths, sqlitePaths } from "./paths.ts";
import { inTurn, SqliteQueries, transactOn } from "./queries.ts";
import { migrateSqlite, migrations, requireSchema, requireUnsealed } from "./schema.ts";

/** How long a migration waits for a concurrent migration of the same file. */
const migrationBusyTimeoutMs = 60_000;

export function sqliteBackend(path: string, { anchor }: Pick<StoreSettings, "anchor">): StoreBackend {
  const paths = sqlitePaths(path, anchor);
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
    backUp: async (target) => backUpSqlite(there(), target),
  };
}

/**
 * Opens the file, which must exist, as it is now. Throws `IncompatibleStoreError` if it does not have this program's
 * schema, an SQLite error if it cannot be read.
 */
export function openSqliteArchive({ path, anchorPath }: StorePaths): OperatorArchive {
  const options = { path, readOnly: true };
  return opened(openConnection(options), (connection) => {
    requireSchema(connection, path);
    hideErased(connection, readNotedErasures(connection, anchorPath));
    const isAnchored = connection.prepare("SELECT anchored FROM store").get()?.anchored === 1;
    const queries = new SqliteQueries(connection);
    // One state for all reads, from the first one on.
    connection.exec("BEGIN");
    return archiveOver({
      anchorPath,
      isAnchored,
      query: (statement, values) => queries.query(statement, values),
      notedErasures: () => readNotedErasures(connection, anchorPath),
      async withNewest(look) {
        using newest = openConnection(options);
        return await look(new SqliteQueries(newest));
      },
      toError: toReported,
      close: async () => connection.close(),
    });
  });
}

/** Attempts to empty the write-ahead log. */
const maxAttempts = 8;

/** Waiting for readers blocks every writer: short enough for a service whose writes wait one second. */
const maxWaitMs = 100;

/**
 * Opens the file, which must exist, for a command. Throws `IncompatibleStoreError` if it is not as required, an SQLite
 * error otherwise.
 */
export function openSqliteDatabase({ path, anchorPath }: StorePaths, purpose: Purpose = "upkeep"): StoreDatabase {
  return opened(openConnection({ path, readOnly: false }), (connection) => {
    requireSchema(connection, path);
    if (purpose === "upkeep") requireUnsealed(connection, path);
    const queries = new SqliteQueries(connection);
    return {
      query: (statement, values) => inTurn(() => queries.query(statement, values)),
      transact: (work) => transactOn(connection, () => work(queries)),
      toError: toReported,
      close: async () => connection.close(),
      name: path,
      anchorPath,
      notesErasures: true,
      openAnchor: async () => openAnchorOf(anchorPath, readStoreId(connection)),
      openArchive: async () => openSqliteArchive({ path, anchorPath }),
      sizeBytes: async () => sizeBytes(path),
      rewrite: async () => connection.exec("VACUUM"),
      async emptyLog(pause) {
        for (let attempt = 1; !emptyLog(connection); attempt++) {
          if (attempt === maxAttempts) return false;
          await pause();
        }
        return true;
      },
      insert: (transaction, table, rows) => transaction.insert(table, rows),
      sealing,
      completion: [],
      [Symbol.asyncDispose]: async () => connection.close(),
    };
  });
}

function emptyLog(connection: SqliteConnection): boolean {
  // Most of the work, without blocking writers.
  passiveCheckpoint(connection);
  connection.exec(`PRAGMA busy_timeout = ${maxWaitMs}`);
  try {
    return connection.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()?.busy === 0;
  } finally {
    connection.exec(`PRAGMA busy_timeout = ${commandBusyTimeoutMs}`);
  }
}

/** Size of the file and its write-ahead log. */
function sizeBytes(path: string): number {
  return ["", "-wal"].reduce((sum, suffix) => sum + (statSync(path + suffix, { throwIfNoEntry: false })?.size ?? 0), 0);
}
