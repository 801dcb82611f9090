/** Changes a file atomically, one process at a time. */
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
 * Replaces the text of a file with the result of `change`; undefined means that the file does not exist. Readers of the
 * file keep access, within the limits of `keepReaders`. Durable when it returns; if `change` throws, the file stays
 * unchanged. The new file beside the old one serves as the lock.
 * @throws Error if another process is changing the file, a file system error, or what `change` throws
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
 * Gives a new file the owner and group of the one that it replaces, and its mode unless others have access: otherwise
 * the service could not read the change of an administrator. A new file has mode 0600.
 */
export function keepReaders(file: number, path: string): void {
  const old = statSync(path, { throwIfNoEntry: false });
  if (old === undefined) return;
  const { uid, gid } = fstatSync(file);
  if (old.uid !== uid || old.gid !== gid)
    try {
      fchownSync(file, old.uid, old.gid);
    } catch (error) {
      // Only root may change the owner: the owner itself ran the command.
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
    throw new Error(`${path} exists: another process is changing the file. If none is, remove it.`);
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
