/** Makes a directory's names durable: a file that was just created or renamed is there after a crash. */
import { closeSync, fsyncSync, openSync } from "node:fs";
import { isFileError } from "./file-errors.ts";

export function syncDirectory(path: string): void {
  try {
    const directory = openSync(path, "r");
    try {
      fsyncSync(directory);
    } finally {
      closeSync(directory);
    }
  } catch (error) {
    // Windows has no such thing and needs none; elsewhere a parent may be closed to us.
    if (!isFileError(error, ["EISDIR", "EPERM", "EACCES", "EINVAL"])) throw error;
  }
}
