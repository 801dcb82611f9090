/** What is done to files and directories with care for crashes and for others. */
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
    // Windows has no such thing and needs none; elsewhere a parent may be closed to us.
    if (!isFileError(error, ["EISDIR", "EPERM", "EACCES", "EINVAL"])) throw error;
  }
}

/** The path leads to something that is there and is no regular file. */
export class NotRegularFileError extends Error {
  override readonly name = "NotRegularFileError";
  /** What it is instead. */
  readonly kind: string;

  constructor(path: string, kind: string) {
    super(`${path} is ${kind}, not a regular file`);
    this.kind = kind;
  }
}

/**
 * Throws `NotRegularFileError`: to open a FIFO waits for whoever writes to it, for ever. A path that leads to nothing
 * passes.
 */
export function requireRegularFile(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined || found.isFile()) return;
  const kind = found.isDirectory() ? "a directory" : found.isFIFO() ? "a FIFO" : "a device or socket";
  throw new NotRegularFileError(path, kind);
}

/** Text of a regular file. Throws like `requireRegularFile`, or a file system error: `EISDIR` for a directory. */
export function readRegularFile(path: string): string {
  if (statSync(path).isDirectory() !== true) requireRegularFile(path);
  return readFileSync(path, "utf8");
}

/** Whether the error is one of the file system with one of these codes. */
export function isFileError(error: unknown, codes: readonly string[]): boolean {
  return error instanceof Error && "code" in error && codes.includes(String(error.code));
}

/**
 * Makes a directory and those above it that are missing, with this mode. Returns the first that was missing. Throws a file
 * system error. The option `recursive` of `mkdir` goes round for ever where a directory that is there takes no new one
 * with ENOENT, as /proc and automounted ones do.
 */
export function makeDirectory(path: string, mode = 0o777): string | undefined {
  const missing: string[] = [];
  for (let at = path; !existsSync(at); at = dirname(at)) missing.unshift(at);
  for (const directory of missing) makeOne(directory, mode);
  return missing[0];
}

/** Somebody else may make it meanwhile. */
function makeOne(path: string, mode: number): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (!isFileError(error, ["EEXIST"])) throw error;
  }
}
