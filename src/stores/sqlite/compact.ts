/** Makes an embedded store smaller: what nobody needs any more goes, and what that leaves free. */
import { statSync } from "node:fs";
import type { Compacted, CompactOptions } from "../backend.ts";
import { expiringTables } from "../expiring-tables.ts";
import { inTransaction, openConnection, type SqliteConnection } from "./connection.ts";
import { requireSchema } from "./schema/migrate.ts";
import { requireUnsealed } from "./schema/seal.ts";

const busyTimeoutMs = 10_000;
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
  const connection = openConnection({ path, readOnly: false, busyTimeoutMs });
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

/** False where a reader of an older state is in the way; all that could be is in the file then, and the log is reused. */
function emptyLog(connection: SqliteConnection): boolean {
  return connection.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()?.busy === 0;
}

/** Of the file and its write-ahead log. */
function sizeBytes(path: string): number {
  return ["", "-wal"].reduce((sum, suffix) => sum + (statSync(path + suffix, { throwIfNoEntry: false })?.size ?? 0), 0);
}
