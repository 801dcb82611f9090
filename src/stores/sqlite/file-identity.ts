/**
 * Whether the files that a process has open are still the ones that their names lead to. SQLite goes on with a file that
 * was deleted, replaced or moved away: what it commits there is found by nobody who opens the store afterwards.
 */
import { lstatSync, statSync } from "node:fs";

/** What tells a file from every other on this machine. */
export interface FileId {
  readonly dev: number;
  readonly ino: number;
}

/** A file as it was when it was opened. */
export interface OpenedFile {
  readonly path: string;
  readonly id: FileId | undefined;
  /** Whether the path may be a link; what it leads to counts then. */
  readonly isLink?: boolean;
}

/** The message names the file; for the operator. */
export class StoreMovedError extends Error {
  override readonly name = "StoreMovedError";
}

/** The file as it is now; its id is undefined where there is none. */
export function openedFile(path: string, isLink = false): OpenedFile {
  return { path, isLink, id: idOf(path, isLink) };
}

/** The database file with those that SQLite keeps beside it for as long as it is open; to be called when it is. */
export function openedDatabase(file: OpenedFile): readonly [OpenedFile, log: OpenedFile, index: OpenedFile] {
  return [file, openedFile(`${file.path}-wal`), openedFile(`${file.path}-shm`)];
}

/** Throws `StoreMovedError` where one of the files is missing or another one by now. */
export function requireInPlace(files: readonly OpenedFile[]): void {
  for (const { path, id, isLink = false } of files) {
    const now = idOf(path, isLink);
    if (now === undefined) throw new StoreMovedError(`${path} was deleted or moved away while the service runs`);
    if (now.ino !== id?.ino || now.dev !== id.dev)
      throw new StoreMovedError(`${path} was replaced by another file while the service runs`);
  }
}

/** A directory on the way that is missing, or no directory, is as good as a missing file. */
function idOf(path: string, isLink: boolean): FileId | undefined {
  try {
    const found = (isLink ? statSync : lstatSync)(path, { throwIfNoEntry: false });
    return found && { dev: found.dev, ino: found.ino };
  } catch {
    return undefined;
  }
}
