/** The database file: its access rights, and its durability. */
import { closeSync, existsSync, fsyncSync, openSync, statfsSync } from "node:fs";
import { dirname } from "node:path";
import { isFileError, makeDirectory, syncDirectory } from "../../files/file-system.ts";
import { IncompatibleStoreError } from "./errors.ts";

/**
 * Creates the file (mode 0600) and its directories (0700) if they are missing; existing ones keep their modes. SQLite
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
