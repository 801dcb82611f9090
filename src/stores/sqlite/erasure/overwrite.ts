import type { SqliteConnection } from "../connection.ts";

/** While it waits for readers nobody else can write: short enough for a service that waits a second for its turn. */
const maxWaitMs = 100;

/**
 * Brings everything that is committed into the file and empties the write-ahead log, so that deleted bytes are in
 * neither: the file has zeros in their place. Returns false where readers of an older state, or writers, did not let go
 * in time; to be tried again after a pause then.
 *
 * @param busyTimeoutMs how long the connection waits for locks otherwise
 */
export function overwriteDeleted(connection: SqliteConnection, busyTimeoutMs: number): boolean {
  // Most of the work, which keeps nobody waiting.
  connection.exec("PRAGMA wal_checkpoint(PASSIVE)");
  connection.exec(`PRAGMA busy_timeout = ${maxWaitMs}`);
  try {
    return connection.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()?.busy === 0;
  } finally {
    connection.exec(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
  }
}
