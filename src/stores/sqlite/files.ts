/** The database file: who may read it, and that it is still there after a crash. */
import { closeSync, existsSync, fsyncSync, openSync, statfsSync } from "node:fs";
import { dirname } from "node:path";
import { isFileError, makeDirectory, syncDirectory } from "../../files/file-system.ts";
import { IncompatibleStoreError } from "../errors.ts";

/**
 * Creates the file (mode 0600) and its directories (0700) where they are missing; what exists keeps its modes. SQLite
 * gives its write-ahead files the mode of the database.
 */
export function createDatabaseFile(path: string): void {
  const directory = dirname(path);
  const firstCreated = makeDirectory(directory, 0o700);
  try {
    const file = openSync(path, "wx", 0o600);
    fsyncSync(file);
    closeSync(file);
  } catch (error) {
    if (isFileError(error, ["EEXIST"])) return;
    throw error;
  }
  // A new name is durable once its directory is.
  syncDirectory(directory);
  if (firstCreated !== undefined) syncDirectory(dirname(firstCreated));
}

/** Of the parts of the shared index (`-shm`) that SQLite makes sure of, before it writes to them through memory. */
const indexPageBytes = 4096;

/**
 * Throws `IncompatibleStoreError` for a file system with smaller blocks. SQLite writes one byte of each page of its
 * shared index, so that a full file system is an error; of smaller blocks the others stay holes, and the first write
 * through memory that finds no room for one ends the process (SIGBUS).
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
