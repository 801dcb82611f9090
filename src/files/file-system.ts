/** File system operations that survive crashes and concurrent processes. */
import {
  closeSync,
  existsSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";

export function syncDirectory(path: string): void {
  try {
    const directory = openSync(path, "r");
    try {
      fsyncSync(directory);
    } finally {
      closeSync(directory);
    }
  } catch (error) {
    // Windows does not support this; elsewhere the parent may not be readable.
    if (!isFileError(error, ["EISDIR", "EPERM", "EACCES", "EINVAL"])) throw error;
  }
}

/** The path leads to something that is not a regular file. */
export class NotRegularFileError extends Error {
  override readonly name = "NotRegularFileError";
  readonly kind: string;

  constructor(path: string, kind: string) {
    super(`${path} is ${kind}, not a regular file`);
    this.kind = kind;
  }
}

/** Throws `NotRegularFileError`, because opening a FIFO blocks until a writer comes. A path to nothing passes. */
export function requireRegularFile(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined || found.isFile()) return;
  const kind = found.isDirectory() ? "a directory" : found.isFIFO() ? "a FIFO" : "a device or socket";
  throw new NotRegularFileError(path, kind);
}

/** Returns the text of a regular file. Throws as `requireRegularFile`. */
export function readRegularFile(path: string): string {
  requireRegularFile(path);
  return readFileSync(path, "utf8");
}

export function isFileError(error: unknown, codes: readonly string[]): boolean {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}

/** The code of a file system error, for the end of a message, such as ` (ENOENT)`; empty for an error without one. */
export function codeText(error: unknown): string {
  return error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
}

/**
 * Creates a directory and its missing parents, with this mode. Returns the first that was missing. Throws a file system
 * error. `mkdir` with `recursive` loops forever if an existing directory answers ENOENT to new entries, as /proc and
 * automounted ones do.
 */
export function makeDirectory(path: string, mode = 0o777): string | undefined {
  const missing: string[] = [];
  for (let at = path; !existsSync(at); at = dirname(at)) missing.unshift(at);
  for (const directory of missing) makeOne(directory, mode);
  return missing[0];
}

/** Another process may create it meanwhile. */
function makeOne(path: string, mode: number): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (!isFileError(error, ["EEXIST"])) throw error;
  }
}

/**
 * Creates a file with mode 0600, and its missing directories with 0700. Durable when it returns. Throws a file system
 * error, `EEXIST` if the file exists, and leaves no file then that it made: on a full disk, one without its text.
 */
export function createFile(path: string, text: string): void {
  const firstCreated = makeDirectory(dirname(path), 0o700);
  const file = openSync(path, "wx", 0o600);
  try {
    writeFileSync(file, text);
    fsyncSync(file);
  } catch (error) {
    rmSync(path, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
  // A new name is durable once its directory is.
  syncDirectory(dirname(path));
  if (firstCreated !== undefined) syncDirectory(dirname(firstCreated));
}

// Changes a file atomically, one process at a time.

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
function keepReaders(file: number, path: string): void {
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

/** Returns the text of a regular file; undefined if there is nothing. Throws as `readRegularFile` for anything else. */
export function readIfThere(path: string): string | undefined {
  try {
    return readRegularFile(path);
  } catch (error) {
    if (isFileError(error, ["ENOENT"])) return undefined;
    throw error;
  }
}
