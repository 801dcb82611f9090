import type { SqliteConnection, SqliteStatement } from "../connection.ts";

/** Rows that one write removes besides: more than it adds, so that a table shrinks while it is written to. */
const removedPerRow = 2;
const removedAtLeast = 16;

/** Removes what nobody needs any more, a few rows with each write, so that no write has to remove them all. */
export class ExpiredRows {
  readonly #remove: SqliteStatement;

  /**
   * @param key columns of the primary key, separated by commas
   * @param expiry column with the milliseconds since the Unix epoch from which on a row may go; has an index
   */
  constructor(connection: SqliteConnection, table: string, key: string, expiry: string) {
    this.#remove = connection.prepare(
      `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} WHERE ${expiry} <= ? ORDER BY ${expiry} LIMIT ?)`,
    );
  }

  /** To be called in the transaction that writes so many rows. */
  remove(nowMs: number, rowsWritten: number): void {
    this.#remove.run(nowMs, removedAtLeast + removedPerRow * rowsWritten);
  }
}
