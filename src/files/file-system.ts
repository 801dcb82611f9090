/** File system operations that survive crashes and concurrent processes. */
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, statSync } from "node:fs";
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

/** Returns the text of a regular file. Throws as `requireRegularFile`, or `EISDIR` for a directory. */
export function readRegularFile(path: string): string {
  if (statSync(path).isDirectory() !== true) requireRegularFile(path);
  return readFileSync(path, "utf8");
}

export function isFileError(error: unknown, codes: readonly string[]): boolean {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
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
