/**
 * Detects whether the open files of a process are still at their paths. SQLite continues with a file that was deleted,
 * replaced or moved; a process that opens the store afterwards does not find those commits.
 */
import { closeSync, constants, fstatSync, lstatSync, openSync, readlinkSync, statSync } from "node:fs";
import { orUndefined } from "../../base/json.ts";

/** Identity of a file on this machine. */
export interface FileId {
  readonly dev: number;
  readonly ino: number;
}

/** A file as it was when it was opened. */
export interface OpenedFile {
  readonly path: string;
  readonly id: FileId | undefined;
  /** Whether the path may be a link; its target counts then. */
  readonly isLink?: boolean;
  /** Where the system shows the file's current name, and its name when it was opened. */
  readonly called?: { readonly link: string; readonly name: string };
}

/** The message names the file; for the operator. */
export class StoreMovedError extends Error {
  override readonly name = "StoreMovedError";
}

/** Looks up a file; its id is undefined if there is none. */
export function openedFile(path: string, isLink = false): OpenedFile {
  return { path, isLink, id: idOf(path, isLink) };
}

/** Looks up the database file and the files that SQLite keeps beside it. Must be called while the database is open. */
export function openedDatabase(file: OpenedFile): readonly [OpenedFile, log: OpenedFile, index: OpenedFile] {
  return [file, openedFile(`${file.path}-wal`), openedFile(`${file.path}-shm`)];
}

/**
 * Holds open a file that is written continuously, so that it can be checked without reading its times. After a process
 * has read the times of a file, Linux writes them again with the next write, and a sync after that takes half as long
 * again. On other systems, and if the file was replaced, nothing is held, and the file is checked like every other.
 */
export function holdFile(file: OpenedFile): { readonly file: OpenedFile; close(): void } {
  const unheld = { file, close: () => {} };
  let descriptor: number;
  try {
    descriptor = openSync(file.path, constants.O_RDONLY | constants.O_NOFOLLOW);
  } catch {
    return unheld;
  }
  const close = () => closeSync(descriptor);
  try {
    const link = `/proc/self/fd/${descriptor}`;
    const { dev, ino } = fstatSync(descriptor);
    if (ino === file.id?.ino && dev === file.id.dev)
      return { file: { ...file, called: { link, name: readlinkSync(link) } }, close };
  } catch {
    // The system has no such links.
  }
  close();
  return unheld;
}

/** Throws `StoreMovedError` if one of the files is missing or was replaced. */
export function requireInPlace(files: readonly OpenedFile[]): void {
  for (const { path, id, isLink = false, called } of files) {
    if (called !== undefined && isCalledStill(called)) continue;
    const now = idOf(path, isLink);
    if (now === undefined) throw new StoreMovedError(`${path} was deleted or moved away while the service runs`);
    if (now.ino !== id?.ino || now.dev !== id.dev)
      throw new StoreMovedError(`${path} was replaced by another file while the service runs`);
  }
}

/** The system marks the name of a deleted or replaced file. */
function isCalledStill({ link, name }: NonNullable<OpenedFile["called"]>): boolean {
  return orUndefined(() => readlinkSync(link)) === name;
}

/** A directory that is missing, or not a directory, counts as a missing file. */
function idOf(path: string, isLink: boolean): FileId | undefined {
  return orUndefined(() => {
    const found = (isLink ? statSync : lstatSync)(path, { throwIfNoEntry: false });
    return found && { dev: found.dev, ino: found.ino };
  });
}
