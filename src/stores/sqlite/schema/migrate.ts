/** Brings a database file to this program's schema. */
import type { RandomFill } from "../../../base/ids.ts";
import { IncompatibleStoreError } from "../../errors.ts";
import { openConnection, type SqliteConnection } from "../connection.ts";
import { createDatabaseFile } from "../files.ts";
import { addSegments } from "../search/search-segments.ts";
import { addChangeMark, requireOwnLog } from "../wal-binding.ts";
import { orderEmptyByRecord } from "./record-order.ts";
import { applicationId, type Migration, migrations } from "./schema.ts";
import { requireUnsealed } from "./seal.ts";

/** How to migrate. */
export interface MigrateOptions {
  readonly path: string;
  readonly random: RandomFill;
  /** How long to wait for another process that migrates. Milliseconds. */
  readonly busyTimeoutMs: number;
  /** What to apply; by default all that this program knows. */
  readonly migrations?: readonly Migration[];
}

/**
 * Creates the file and its directory where they are missing, and applies what is missing of the schema, all or
 * nothing. Safe when several processes start at once: they take turns. Throws `IncompatibleStoreError` when the file
 * is another program's, is sealed, has another file's write-ahead log, was written by a newer version of this one, or holds a log that does not verify, and an SQLite or file system error when it
 * cannot be opened. Returns the names of the migrations that were applied.
 */
export function migrateSqlite(options: MigrateOptions): readonly string[] {
  createDatabaseFile(options.path);
  requireOwnLog(options.path);
  // Looked at before the first write: opening for writing changes the journal mode, which is the file's owner's affair.
  const looking = openConnection({ ...options, readOnly: true });
  try {
    readCompatibleVersion(looking, options);
    requireUnsealed(looking, options.path);
  } finally {
    looking.close();
  }
  const connection = openConnection({ ...options, readOnly: false });
  try {
    connection.exec("BEGIN IMMEDIATE");
    requireUnsealed(connection, options.path);
    const applied = applyMissing(connection, options);
    connection.exec("COMMIT");
    return applied;
  } finally {
    connection.close(); // rolls back what was not committed
  }
}

/**
 * Throws `IncompatibleStoreError` where the file has not this very schema: for those who write beside a service, which
 * would be in the way of a migration.
 */
export function requireNewestSchema(connection: SqliteConnection, path: string): void {
  const version = readCompatibleVersion(connection, { path });
  if (version > migrations.length) throw newerSchema(path, version, migrations.length);
  if (version < migrations.length)
    throw new IncompatibleStoreError(
      `${path} has schema version ${version}, and this program needs ${migrations.length}: run \`migrate\` first.`,
    );
}

/**
 * `PRAGMA user_version` has the schema's version below, and above it the oldest version that a program must know; where
 * that is 0 it must know all.
 */
const oldestFactor = 2 ** 16;

/** Returns the file's schema version; 0 when it is empty. More than is known where the rest may be missed. */
function readCompatibleVersion(
  connection: SqliteConnection,
  options: Pick<MigrateOptions, "path" | "migrations">,
): number {
  const latest = (options.migrations ?? migrations).length;
  const mark = readPragma(connection, "user_version");
  const version = mark % oldestFactor;
  const tables = connection.prepare("SELECT count(*) AS count FROM sqlite_schema").get()?.count;
  if (readPragma(connection, "application_id") !== applicationId && (tables !== 0 || version !== 0)) {
    throw new IncompatibleStoreError(`${options.path} is a database of another program.`);
  }
  if (version > latest && (Math.floor(mark / oldestFactor) || version) > latest)
    throw newerSchema(options.path, version, latest);
  return version;
}

function newerSchema(path: string, version: number, known: number): IncompatibleStoreError {
  return new IncompatibleStoreError(
    `${path} has schema version ${version}; this program knows versions up to ${known}. ` +
      "It was written by a newer version of the service: use that one.",
  );
}

/** What `user_version` is when all of them are applied. */
function markOf(known: readonly Migration[]): number {
  const oldest = known.findLastIndex(({ additive }) => additive !== true) + 1;
  return oldest === known.length ? oldest : oldest * oldestFactor + known.length;
}

function applyMissing(connection: SqliteConnection, options: MigrateOptions): readonly string[] {
  const known = options.migrations ?? migrations;
  const missing = known.slice(readCompatibleVersion(connection, options));
  if (missing.length === 0) {
    addWhatVersionsShare(connection);
    return [];
  }
  for (const { sql, fill } of missing) {
    connection.exec(sql);
    fill?.(connection, options.random);
  }
  connection.exec(`PRAGMA user_version = ${markOf(known)}; PRAGMA application_id = ${applicationId}`);
  const storeId = Buffer.from(options.random(new Uint8Array(16))).toString("hex");
  connection
    .prepare(
      "INSERT INTO store (singleton, store_id, probed_at_ms, probe) VALUES (1, ?, 0, x'') ON CONFLICT DO NOTHING",
    )
    .run(storeId);
  if (known.length >= migrations.length) addWhatVersionsShare(connection);
  return missing.map(({ name }) => name);
}

/** What a store of the newest schema gets besides, with which the version before goes on. */
function addWhatVersionsShare(connection: SqliteConnection): void {
  addSegments(connection);
  addChangeMark(connection);
  orderEmptyByRecord(connection);
}

function readPragma(connection: SqliteConnection, name: "user_version" | "application_id"): number {
  return Number(connection.prepare(`PRAGMA ${name}`).get()?.[name]);
}
