/** Brings a database file to this program's schema. */
import type { RandomFill } from "../../base/ids.ts";
import { inTransaction, openConnection, type SqliteConnection } from "../files/connection.ts";
import { createDatabaseFile } from "../files/database-file.ts";
import { IncompatibleStoreError } from "../files/errors.ts";
import type { Migration } from "../sql/schema.ts";
import { copyState, requireKnownVersion, requireServable, toCopyState } from "../sql/store-checks.ts";
import { applicationId, migrations } from "./schema.ts";
import { requireOwnLog } from "./wal-binding.ts";

export interface MigrateOptions {
  readonly path: string;
  readonly random: RandomFill;
  /** How long to wait for a concurrent migration. Milliseconds. */
  readonly busyTimeoutMs: number;
  /** Default: all that this program knows. */
  readonly migrations?: readonly Migration[];
}

/**
 * Creates the file and its directory if they are missing, and applies the missing migrations, all or nothing. Safe when
 * several processes start at once: they take turns. Throws `IncompatibleStoreError` if the file is another program's,
 * is sealed, has another file's write-ahead log or an unknown schema version, and an SQLite or file system error if it
 * cannot be opened. Returns the names of the applied migrations.
 */
export function migrateSqlite(options: MigrateOptions): readonly string[] {
  createDatabaseFile(options.path);
  requireOwnLog(options.path);
  // Before the first write: opening for writing changes the journal mode, even of another program's file.
  const requireOwn = (connection: SqliteConnection) => {
    if (readVersion(connection, options) > 0) requireUnsealed(connection, options.path);
  };
  {
    using looking = openConnection({ ...options, readOnly: true });
    requireOwn(looking);
  }
  using connection = openConnection({ ...options, readOnly: false });
  return inTransaction(connection, () => {
    requireOwn(connection);
    return applyMissing(connection, options);
  });
}

/** Throws `IncompatibleStoreError` if the file does not have exactly this program's schema. */
export function requireSchema(connection: SqliteConnection, path: string): void {
  const version = readVersion(connection, { path });
  if (version < migrations.length)
    throw new IncompatibleStoreError(
      `${path} has schema version ${version}, and this program needs ${migrations.length}: run \`migrate\` first.`,
    );
}

/** Throws `IncompatibleStoreError` if the store takes part in a copy. */
export function requireUnsealed(connection: SqliteConnection, path: string): void {
  requireServable(toCopyState(connection.prepare(copyState.text).get()), path);
}

/** Returns the file's schema version; 0 if it is empty. */
function readVersion(connection: SqliteConnection, options: Pick<MigrateOptions, "path" | "migrations">): number {
  const version = readPragma(connection, "user_version");
  const tables = connection.prepare("SELECT count(*) AS count FROM sqlite_schema").get()?.count;
  if (readPragma(connection, "application_id") !== applicationId && (tables !== 0 || version !== 0)) {
    throw new IncompatibleStoreError(`${options.path} is a database of another program.`);
  }
  requireKnownVersion(options.path, version, (options.migrations ?? migrations).length);
  return version;
}

function applyMissing(connection: SqliteConnection, options: MigrateOptions): readonly string[] {
  const known = options.migrations ?? migrations;
  const missing = known.slice(readVersion(connection, options));
  if (missing.length === 0) return [];
  for (const { sql } of missing) connection.exec(sql);
  connection.exec(`PRAGMA user_version = ${known.length}; PRAGMA application_id = ${applicationId}`);
  const storeId = Buffer.from(options.random(new Uint8Array(16))).toString("hex");
  connection
    .prepare(
      "INSERT INTO store (singleton, store_id, probed_at_ms, probe) VALUES (1, ?, 0, x'') ON CONFLICT DO NOTHING",
    )
    .run(storeId);
  return missing.map(({ name }) => name);
}

function readPragma(connection: SqliteConnection, name: "user_version" | "application_id"): number {
  return Number(connection.prepare(`PRAGMA ${name}`).get()?.[name]);
}
