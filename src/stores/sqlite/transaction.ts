import type { SqliteConnection } from "./connection.ts";

/**
 * Runs the work in one transaction. IMMEDIATE takes the write lock before the first read, so that what was read cannot
 * have changed at the commit. When it throws, the outcome of the commit is unknown.
 */
export function inTransaction<Result>(connection: SqliteConnection, work: () => Result): Result {
  connection.exec("BEGIN IMMEDIATE");
  try {
    const result = work();
    connection.exec("COMMIT");
    return result;
  } catch (error) {
    // Some failures have rolled back by themselves.
    if (connection.isTransaction) connection.exec("ROLLBACK");
    throw error;
  }
}

/** Runs the reads on one state of the database: that of the caller's transaction, or of one of their own. */
export function inSnapshot<Result>(connection: SqliteConnection, read: () => Result): Result {
  if (connection.isTransaction) return read();
  connection.exec("BEGIN");
  try {
    return read();
  } finally {
    if (connection.isTransaction) connection.exec("COMMIT");
  }
}
