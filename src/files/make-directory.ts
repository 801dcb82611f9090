import { existsSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { isFileError } from "./file-errors.ts";

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
