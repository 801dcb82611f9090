/** How the service opens SQLite: every setting that durability and safety depend on, in one place. */
import { existsSync, statfsSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { createFile, isFileError, requireRegularFile } from "../../files/file-system.ts";
import { IncompatibleStoreError } from "./errors.ts";

export type SqliteConnection = DatabaseSync;
export type SqliteStatement = StatementSync;

export interface ConnectionOptions {
  /** Path of the database file. It must exist: a store that went missing is never replaced by an empty one. */
  readonly path: string;
  readonly readOnly: boolean;
  /** How long a statement waits for another process's lock. Milliseconds; default: `commandBusyTimeoutMs`. */
  readonly busyTimeoutMs?: number | undefined;
  /**
   * What a commit survives. `machine`, the default: a crash of the machine. `process`: a crash of the process; a crash
   * of the machine may lose the newest commits, and leaves the file sound.
   */
  readonly durability?: "machine" | "process";
}

/** How long commands and starts wait: a service under load releases its lock within a second. */
export const commandBusyTimeoutMs = 10_000;

/** Opens a connection. Throws if the file is missing, not a regular file, not a database, or locked for too long. */
export function openConnection({
  path,
  readOnly,
  busyTimeoutMs = commandBusyTimeoutMs,
  durability,
}: ConnectionOptions): SqliteConnection {
  requireRegularFile(path);
  const url = pathToFileURL(path);
  url.searchParams.set("mode", readOnly ? "ro" : "rw");
  return opened(new DatabaseSync(url, { readOnly, timeout: busyTimeoutMs, defensive: true }), (connection) => {
    // The schema is not trusted to call functions: SQLite's advice for files that others may have written.
    connection.exec("PRAGMA trusted_schema = OFF; PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY");
    if (!readOnly) configureWriter(connection, durability ?? "machine");
    return connection;
  });
}

/** Makes something of an open resource, and closes the resource if that fails. */
export function opened<Open extends { close(): void }, Result>(open: Open, make: (open: Open) => Result): Result {
  try {
    return make(open);
  } catch (error) {
    open.close();
    throw error;
  }
}

/**
 * Page size of a new store; an existing one keeps its own. A sealed record with its leaf is 2 to 3 KiB. With the
 * default of 4 KiB each would fill one page, and a third of each write would be empty.
 */
const pageBytes = 8192;

/** Pages in the write-ahead log after which a commit of a command copies them into the file: 32 MiB. */
const checkpointPages = 4_096;

function configureWriter(connection: DatabaseSync, durability: "machine" | "process"): void {
  if (durability === "machine") connection.exec(`PRAGMA page_size = ${pageBytes}`);
  // WAL allows readers beside the writer; FULL syncs it at every commit, which makes commits durable.
  const mode = connection.prepare("PRAGMA journal_mode = WAL").get()?.journal_mode;
  if (mode !== "wal") throw new Error(`The database cannot use write-ahead logging (it is in ${String(mode)} mode).`);
  connection.exec(`PRAGMA synchronous = ${durability === "machine" ? "FULL" : "NORMAL"}`);
  // macOS: fsync alone does not reach the disk.
  connection.exec("PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON");
  // Deleted openings are overwritten with zeros.
  connection.exec("PRAGMA secure_delete = ON");
  connection.exec(`PRAGMA journal_size_limit = ${64 * 1024 * 1024}`);
  connection.exec(`PRAGMA wal_autocheckpoint = ${checkpointPages}`);
}

/** Copies commits into the file, as far as readers permit. Waits for nothing. */
export function passiveCheckpoint(connection: SqliteConnection): void {
  connection.exec("PRAGMA wal_checkpoint(PASSIVE)");
}

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

/** Reads the store's identity. Throws if it is missing. */
export function readStoreId(connection: SqliteConnection): string {
  const id = connection.prepare("SELECT store_id FROM store WHERE singleton = 1").get()?.store_id;
  if (typeof id !== "string") throw new Error("The store has lost its identity.");
  return id;
}

const verbs = ["INSERT", "UPDATE", "DELETE"];

/** Statements that make tables refuse every write, and those that end this. */
export const sealing = {
  seal: (tables: readonly string[]) =>
    tables.flatMap((table) =>
      verbs.map(
        (verb) =>
          `CREATE TRIGGER IF NOT EXISTS sealed_${table}_${verb} BEFORE ${verb} ON ${table} BEGIN
             SELECT RAISE(ABORT, 'This store is sealed: it was copied to another one by store copy.'); END`,
      ),
    ),
  unseal: (tables: readonly string[]) =>
    tables.flatMap((table) => verbs.map((verb) => `DROP TRIGGER IF EXISTS sealed_${table}_${verb}`)),
};

/** Creates a missing file, as `createFile` does. SQLite gives its write-ahead files the mode of the database. */
export function createDatabaseFile(path: string): void {
  try {
    createFile(path, "");
  } catch (error) {
    if (!isFileError(error, ["EEXIST"])) throw error;
  }
}

/** Size of the parts of the shared index (`-shm`) that SQLite allocates before it writes to them through memory. */
const indexPageBytes = 4096;

/**
 * Throws `IncompatibleStoreError` for a file system with smaller blocks. SQLite writes one byte of each page of its
 * shared index, so that a full file system is an error. With smaller blocks the other blocks stay holes, and a write
 * through memory without free space ends the process (SIGBUS).
 */
export function requireSafeBlocks(path: string, statfs: typeof statfsSync = statfsSync): void {
  let folder = dirname(path);
  while (!existsSync(folder) && dirname(folder) !== folder) folder = dirname(folder);
  const { bsize } = statfs(folder);
  if (bsize >= indexPageBytes) return;
  throw new IncompatibleStoreError(
    `${path} would be on a file system with blocks of ${bsize} bytes: when it is full, the process would end. Use one ` +
      `with blocks of ${indexPageBytes} bytes or more (mkfs.ext4 -b ${indexPageBytes}).`,
  );
}
