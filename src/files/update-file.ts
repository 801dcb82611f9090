/** Changes a file all or nothing, one process at a time. */
import {
  closeSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { isFileError, makeDirectory, readRegularFile, syncDirectory } from "./file-system.ts";

/**
 * Replaces the text of a file by what `change` makes of it; undefined stands for a file that is not there. Who could read
 * the file can read the new one, but for what `keepReaders` says; durable when it returns; where `change` throws, the file stays as it was. While one process is at it, another is
 * refused, by the new file beside the old one.
 * @throws Error where another process is at it, a file system error, or what `change` throws
 */
export function updateFile(path: string, change: (text: string | undefined) => string): void {
  makeDirectory(dirname(path), 0o700);
  const next = `${path}.next`;
  const file = openNew(next);
  try {
    writeFileSync(file, change(readIfThere(path)));
    keepReaders(file, path);
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

/**
 * Gives a new file the owner and group of the one that it replaces, and its mode where others have no part in it: else the
 * service could not read what an administrator has changed, and would go on with what it said before. A new file has 0600.
 */
export function keepReaders(file: number, path: string): void {
  const old = statSync(path, { throwIfNoEntry: false });
  if (old === undefined) return;
  const { uid, gid } = fstatSync(file);
  if (old.uid !== uid || old.gid !== gid)
    try {
      fchownSync(file, old.uid, old.gid);
    } catch (error) {
      // Only root may give a file away: then it is the owner's own command that was asked for.
      if (isFileError(error, ["EPERM", "EINVAL"])) return;
      throw error;
    }
  if ((old.mode & 0o137) === 0) fchmodSync(file, (old.mode & 0o777) | 0o600);
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
