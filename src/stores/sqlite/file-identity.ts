/**
 * Whether the files that a process has open are still the ones that their names lead to. SQLite goes on with a file that
 * was deleted, replaced or moved away: what it commits there is found by nobody who opens the store afterwards.
 */
import { closeSync, constants, fstatSync, lstatSync, openSync, readlinkSync, statSync } from "node:fs";

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
  /** Where the system says what the file is called now, and what it was called when it was opened. */
  readonly called?: { readonly link: string; readonly name: string };
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

/** A file that is held open, so that it can be looked at without a look at its times. */
export interface HeldFile {
  readonly file: OpenedFile;
  close(): void;
}

/**
 * Holds a file that is written to all the time. Linux notes of a file that somebody looked at its times, and then writes
 * them anew with the next write: a sync after it takes half as long again. Elsewhere, and where the file is not the
 * opened one any more, nothing is held, and the file is looked at as every other.
 */
export function holdFile(file: OpenedFile): HeldFile {
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
    // A system without such links.
  }
  close();
  return unheld;
}

/** Throws `StoreMovedError` where one of the files is missing or another one by now. */
export function requireInPlace(files: readonly OpenedFile[]): void {
  for (const { path, id, isLink = false, called } of files) {
    if (called !== undefined && isCalledStill(called)) continue;
    const now = idOf(path, isLink);
    if (now === undefined) throw new StoreMovedError(`${path} was deleted or moved away while the service runs`);
    if (now.ino !== id?.ino || now.dev !== id.dev)
      throw new StoreMovedError(`${path} was replaced by another file while the service runs`);
  }
}

/** The system adds to the name that a file is deleted, or replaced by another one. */
function isCalledStill({ link, name }: NonNullable<OpenedFile["called"]>): boolean {
  try {
    return readlinkSync(link) === name;
  } catch {
    return false;
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
