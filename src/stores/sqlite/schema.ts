/** The schema, as one table of steps, and how a database file is brought to it. */
import type { RandomFill } from "../../base/ids.ts";
import { createDatabaseFile, inTransaction, openConnection, type SqliteConnection } from "../files/connection.ts";
import { IncompatibleStoreError } from "../files/errors.ts";
import { type Migration, sharedSchema } from "../sql/schema.ts";
import { copyState, requireKnownVersion, requireServable, toCopyState } from "../sql/store-checks.ts";
import { markOf, requireOwnLog } from "./wal-binding.ts";

/** Marks the file as ours (`PRAGMA application_id`), so that another program's database is never written to. */
export const applicationId = 0x53_50_41_31;

/**
 * Tables with numbered rows. A tree ordered by a key moves rows between pages and may leave copies behind, which no
 * deletion overwrites; rows that are only appended stay in place.
 */
const numbered: ReadonlySet<string> = new Set(["entries", "openings", "tiles", "kept_answers", "search_segments"]);

const types = { text: "TEXT", bytea: "BLOB", bigint: "INTEGER", integer: "INTEGER" };

/** Record ids begin with a time, so that records of one commit are adjacent in an index that begins with the id. */
const shared = sharedSchema("(record_id, tenant_id)")
  .replaceAll(/^( +\w+) (text|bytea|bigint|integer)\b/gm, (_, column: string, type: keyof typeof types) => {
    return `${column} ${types[type]}`;
  })
  .replaceAll(/CREATE TABLE (\w+) (\([^;]*?\n +\));/g, (_, table: string, columns: string) => {
    return `CREATE TABLE ${table} ${columns} STRICT${numbered.has(table) ? "" : ", WITHOUT ROWID"};`;
  });
export const migrations: readonly Migration[] = [
  {
    name: "baseline",
    sql: `
    CREATE TABLE store (
      singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
      store_id TEXT NOT NULL,
      probed_at_ms INTEGER NOT NULL,
      probe BLOB NOT NULL,
      -- Whether this store has an anchor: from then on it is not served without.
      anchored INTEGER NOT NULL DEFAULT 0 CHECK (anchored IN (0, 1))
    ) STRICT;

    -- Counts the transactions: see wal-binding.ts.
    CREATE TABLE store_changes (
      singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
      changes INTEGER NOT NULL,
      mark TEXT NOT NULL
    ) STRICT;
    INSERT INTO store_changes VALUES (1, 0, '${markOf(0)}');
${shared}
    CREATE UNIQUE INDEX log_heads_by_name ON log_heads (substr(origin, -32));
    -- The tenant of each log name.
    CREATE VIEW log_names AS SELECT substr(origin, -32) AS name, tenant_id FROM log_heads;
    `,
  },
];

export interface MigrateOptions {
  readonly path: string;
  readonly random: RandomFill;
  /** How long to wait for a concurrent migration. Milliseconds; default: as commands do. */
  readonly busyTimeoutMs?: number;
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
  requireServable(toCopyState(connection.prepare(copyState).get()), path);
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
