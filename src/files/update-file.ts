/** Changes a file all or nothing, one process at a time. */
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { isFileError, makeDirectory, readRegularFile, syncDirectory } from "./file-system.ts";

/**
 * Replaces the text of a file by what `change` makes of it; undefined stands for a file that is not there. Mode 0600;
 * durable when it returns; where `change` throws, the file stays as it was. While one process is at it, another is
 * refused, by the new file beside the old one.
 * @throws Error where another process is at it, a file system error, or what `change` throws
 */
export function updateFile(path: string, change: (text: string | undefined) => string): void {
  makeDirectory(dirname(path), 0o700);
  const next = `${path}.next`;
  const file = openNew(next);
  try {
    writeFileSync(file, change(readIfThere(path)));
    fsyncSync(file);
    renameSync(next, path);
  } catch (error) {
    rmSync(next, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
  syncDirectory(dirname(path));
}

function openNew(path: string): number {
  try {
    return openSync(path, "wx", 0o600);
  } catch (error) {
    if (!isFileError(error, ["EEXIST"])) throw error;
    throw new Error(`${path} is there: another process is changing the file. Remove it where none is.`);
  }
}

function readIfThere(path: string): string | undefined {
  try {
    return readRegularFile(path);
  } catch (error) {
    if (isFileError(error, ["ENOENT"])) return undefined;
    throw error;
  }
}
