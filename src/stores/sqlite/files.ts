/** The database file: who may read it, and that it is still there after a crash. */
import { closeSync, fsyncSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { isFileError } from "../file-errors.ts";
import { syncDirectory } from "../sync-directory.ts";

/**
 * Creates the file (mode 0600) and its directories (0700) where they are missing; what exists keeps its modes. SQLite
 * gives its write-ahead files the mode of the database.
 */
export function createDatabaseFile(path: string): void {
  const directory = dirname(path);
  const firstCreated = mkdirSync(directory, { recursive: true, mode: 0o700 });
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
