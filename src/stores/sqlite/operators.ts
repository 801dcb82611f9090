/** An embedded store as operators' commands open it, with or without a running service. */
import { existsSync, statSync } from "node:fs";
import type { Clock } from "../../base/clock.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import { anchorConnection, SqliteAnchor } from "../files/anchor.ts";
import { openConnection as openReal, readStoreId, type SqliteConnection, sealing } from "../files/connection.ts";
import { IncompatibleStoreError } from "../files/errors.ts";
import { archiveOver } from "../sql/archive.ts";
import { LogTools } from "../sql/log-tools.ts";
import type { Purpose, StoreDatabase } from "../sql/queries.ts";
import { type AdministeredStore, StoredRecordsAdministration } from "../sql/records-administration.ts";
import type { IndexerOptions } from "../sql/search-indexer.ts";
import { toReported } from "./errors.ts";
import { requireSchema, requireUnsealed } from "./migrate.ts";
import { hideErased, readNotedErasures } from "./noted-erasures.ts";
import type { StorePaths } from "./paths.ts";
import { SqliteDatabase, SqliteQueries } from "./queries.ts";

/** How long to wait for other processes on the same files: a service under load releases its lock within a second. */
const busyTimeoutMs = 10_000;

/**
 * Opens the file, which must exist, as it is now. Throws `IncompatibleStoreError` if it does not have this program's
 * schema, an SQLite error if it cannot be read.
 */
export function openSqliteArchive({ path, anchorPath }: Pick<StorePaths, "path" | "anchorPath">): StoreArchive {
  const options = { path, readOnly: true, busyTimeoutMs };
  return opened(openReal(options), (connection) => {
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
        const newest = openReal(options);
        try {
          return await look(new SqliteQueries(newest));
        } finally {
          newest.close();
        }
      },
      toError: toReported,
      close: async () => connection.close(),
    });
  });
}

export interface SqliteAdministrationOptions extends Pick<StorePaths, "path" | "anchorPath">, IndexerOptions {
  readonly clock: Clock;
  /** Replaces `openConnection`. */
  readonly openConnection?: typeof openReal;
}

/**
 * Opens store and anchor, which must exist, to erase and hold records. Throws `IncompatibleStoreError` if they are not
 * as required, an SQLite error otherwise.
 */
export function openSqliteAdministration(options: SqliteAdministrationOptions): StoredRecordsAdministration {
  const { path, anchorPath, openConnection = openReal } = options;
  if (!existsSync(anchorPath)) throw new IncompatibleStoreError(`${anchorPath} is missing: nothing may be appended.`);
  return opened(openConnection({ path, busyTimeoutMs, readOnly: false }), (connection) => {
    requireSchema(connection, path);
    requireUnsealed(connection, path);
    return opened(
      SqliteAnchor.open({ ...anchorConnection, path: anchorPath, busyTimeoutMs }, openConnection),
      (anchor) => {
        if (anchor.storeId() !== readStoreId(connection))
          throw new IncompatibleStoreError(`${anchorPath} is not the anchor of this store: nothing may be appended.`);
        return new StoredRecordsAdministration(administered(connection, anchor, options), options);
      },
    );
  });
}

/** Attempts to overwrite deleted bytes. */
const maxAttempts = 8;

function administered(
  connection: SqliteConnection,
  anchor: SqliteAnchor,
  options: SqliteAdministrationOptions,
): AdministeredStore {
  const database = new SqliteDatabase(connection);
  return {
    query: (statement, values) => database.query(statement, values),
    transact: (work) => database.transact(work),
    tools: new LogTools({ ...options, anchor, originPrefix: "" }),
    notedErasures: () => anchor.erasures(),
    noteErasures: (erasures) => anchor.noteErasures(erasures),
    async overwrite() {
      for (let attempt = 1; !overwriteDeleted(connection, busyTimeoutMs); attempt++) {
        if (attempt === maxAttempts) return false;
        await options.pause();
      }
      return true;
    },
    toError: toReported,
    async close() {
      connection.close();
      anchor.close();
    },
  };
}

/** Waiting for readers blocks every writer: short enough for a service whose writes wait one second. */
const maxWaitMs = 100;

/**
 * Copies all commits into the file, with zeros in place of deleted bytes, and empties the write-ahead log. Returns
 * false if readers of an older state, or writers, held their locks for too long; the caller should retry after a pause.
 *
 * @param busyTimeoutMs how long the connection waits for locks otherwise
 */
function overwriteDeleted(connection: SqliteConnection, busyTimeoutMs: number): boolean {
  // Most of the work, without blocking writers.
  connection.exec("PRAGMA wal_checkpoint(PASSIVE)");
  connection.exec(`PRAGMA busy_timeout = ${maxWaitMs}`);
  try {
    return emptyLog(connection);
  } finally {
    connection.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
  }
}

/** False if a reader of an older state is in the way; the rest is in the file then, and the log is reused. */
function emptyLog(connection: SqliteConnection): boolean {
  return connection.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()?.busy === 0;
}

/** Opens the file, which must exist, for a command. Throws like `openSqliteAdministration`. */
export function openSqliteDatabase(
  paths: Pick<StorePaths, "path" | "anchorPath">,
  purpose: Purpose = "upkeep",
): StoreDatabase {
  const { path, anchorPath } = paths;
  return opened(openReal({ path, readOnly: false, busyTimeoutMs }), (connection) => {
    requireSchema(connection, path);
    if (purpose === "upkeep") requireUnsealed(connection, path);
    const database = new SqliteDatabase(connection);
    return {
      query: (statement, values) => database.query(statement, values),
      transact: (work) => database.transact(work),
      toError: toReported,
      close: () => database.close(),
      name: path,
      anchorPath,
      openArchive: async () => openSqliteArchive(paths),
      sizeBytes: async () => sizeBytes(path),
      rewrite: async () => connection.exec("VACUUM"),
      emptyLog: async () => emptyLog(connection),
      insert: (transaction, table, rows) => transaction.insert(table, rows),
      sealing,
      completion: [],
    };
  });
}

/** Size of the file and its write-ahead log. */
function sizeBytes(path: string): number {
  return ["", "-wal"].reduce((sum, suffix) => sum + (statSync(path + suffix, { throwIfNoEntry: false })?.size ?? 0), 0);
}

/** Makes something of an open resource, and closes the resource if that fails. */
function opened<Open extends { close(): void }, Result>(open: Open, make: (open: Open) => Result): Result {
  try {
    return make(open);
  } catch (error) {
    open.close();
    throw error;
  }
}
