/** An embedded store as operators' commands open it, beside a running service or without one. */
import { existsSync, statSync } from "node:fs";
import type { Clock } from "../../base/clock.ts";
import type { Compacted, CompactOptions } from "../backend.ts";
import { IncompatibleStoreError } from "../errors.ts";
import { expiringTables } from "../expiring-tables.ts";
import { StoredArchive } from "../sql/archive.ts";
import { type AdministeredStore, StoredRecordsAdministration } from "../sql/records-administration.ts";
import { type IndexerOptions, StoredSearchIndexer } from "../sql/search-indexer.ts";
import { inTransaction, openConnection as openReal, readStoreId, type SqliteConnection } from "./connection.ts";
import { hideErased, readNotedErasures } from "./erasure/noted-erasures.ts";
import { toReported } from "./errors.ts";
import { anchorConnection, SqliteAnchor } from "./log/anchor.ts";
import { LogWriter } from "./log/log-writer.ts";
import type { StorePaths } from "./paths.ts";
import { SqliteDatabase, SqliteQueries } from "./queries.ts";
import { requireSchema } from "./schema/migrate.ts";
import { requireUnsealed } from "./schema/seal.ts";

/** How long to wait for others on the same files: a service under load lets go within a second. */
const busyTimeoutMs = 10_000;

/**
 * Opens the file, which must exist, as it is now. Throws `IncompatibleStoreError` if it does not have this program's
 * schema, an SQLite error if it cannot be read.
 */
export function openSqliteArchive({ path, anchorPath }: Pick<StorePaths, "path" | "anchorPath">): StoredArchive {
  const options = { path, readOnly: true, busyTimeoutMs };
  return opened(openReal(options), (connection) => {
    requireSchema(connection, path);
    hideErased(connection, readNotedErasures(connection, anchorPath));
    const isAnchored = connection.prepare("SELECT anchored FROM store").get()?.anchored === 1;
    const queries = new SqliteQueries(connection);
    // One state for all that is asked, from the first question on.
    connection.exec("BEGIN");
    return new StoredArchive({
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
  /** Takes the place of `openConnection`. */
  readonly openConnection?: typeof openReal;
}

/**
 * Opens store and anchor, which must exist, for those who erase and hold records. Throws `IncompatibleStoreError` where
 * they are not what they must be, an SQLite error otherwise.
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

/** Attempts to overwrite what was deleted. */
const maxAttempts = 8;

function administered(
  connection: SqliteConnection,
  anchor: SqliteAnchor,
  options: SqliteAdministrationOptions,
): AdministeredStore {
  const database = new SqliteDatabase(connection);
  // Every log that is worked on exists, so no origin is made here.
  const logs = new LogWriter(new SqliteQueries(connection), anchor, "");
  return {
    query: (statement, values) => database.query(statement, values),
    withHeadLock: (tenantId, work) =>
      logs.withHeadLock(tenantId, work, options, (within) => database.transact(() => within())),
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

/** While it waits for readers nobody else can write: short enough for a service that waits a second for its turn. */
const maxWaitMs = 100;

/**
 * Brings everything that is committed into the file and empties the write-ahead log, so that deleted bytes are in
 * neither: the file has zeros in their place. Returns false where readers of an older state, or writers, did not let go
 * in time; to be tried again after a pause then.
 *
 * @param busyTimeoutMs how long the connection waits for locks otherwise
 */
function overwriteDeleted(connection: SqliteConnection, busyTimeoutMs: number): boolean {
  // Most of the work, which keeps nobody waiting.
  connection.exec("PRAGMA wal_checkpoint(PASSIVE)");
  connection.exec(`PRAGMA busy_timeout = ${maxWaitMs}`);
  try {
    return emptyLog(connection);
  } finally {
    connection.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
  }
}

/** False where a reader of an older state is in the way; all that could be is in the file then, and the log is reused. */
function emptyLog(connection: SqliteConnection): boolean {
  return connection.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()?.busy === 0;
}

/** Opens the file, which must exist, for those who build its search indexes anew. Throws an SQLite error. */
export function openSqliteIndexer({ path, ...options }: IndexerOptions & Pick<StorePaths, "path">) {
  return opened(openReal({ path, readOnly: false, busyTimeoutMs }), (connection) => {
    requireSchema(connection, path);
    return new StoredSearchIndexer(new SqliteDatabase(connection), options);
  });
}

/** Rows of one transaction: a service beside waits for milliseconds. */
const rowsEach = 1_000;

/**
 * Removes expired rows in short transactions, brings the write-ahead log into the file and empties it. With `rewrite` the
 * file is rewritten before that: no other process can write meanwhile, and it takes as much free space as the store has.
 */
export async function compactSqlite(
  path: string,
  { nowMs, rewrite, pause, onProgress }: CompactOptions,
): Promise<Compacted> {
  const sizeOf = () => sizeBytes(path);
  const connection = openReal({ path, readOnly: false, busyTimeoutMs });
  try {
    requireSchema(connection, path);
    requireUnsealed(connection, path);
    const beforeBytes = sizeOf();
    const removed: Record<string, number> = {};
    for (const { table, key, expiry, keptForMs } of expiringTables) {
      const remove = connection.prepare(
        `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} WHERE ${expiry} < ? LIMIT ${rowsEach})`,
      );
      let count = 0;
      for (let gone = rowsEach; gone === rowsEach; count += gone) {
        await pause();
        gone = inTransaction(connection, () => Number(remove.run(nowMs - keptForMs).changes));
        onProgress(`${table}: ${count + gone} expired rows removed`);
      }
      removed[table] = count;
    }
    if (rewrite) {
      onProgress("writing the file anew");
      connection.exec("VACUUM");
    }
    const isLogEmpty = emptyLog(connection);
    return { removed, beforeBytes, afterBytes: sizeOf(), isLogEmpty };
  } finally {
    connection.close();
  }
}

/** Of the file and its write-ahead log. */
function sizeBytes(path: string): number {
  return ["", "-wal"].reduce((sum, suffix) => sum + (statSync(path + suffix, { throwIfNoEntry: false })?.size ?? 0), 0);
}

/** What is made of something that is open; it is closed where that fails. */
function opened<Open extends { close(): void }, Result>(open: Open, make: (open: Open) => Result): Result {
  try {
    return make(open);
  } catch (error) {
    open.close();
    throw error;
  }
}
