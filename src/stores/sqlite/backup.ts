/** A copy of an embedded store as it is at one moment, made beside a running service. */
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  lstatSync,
  openSync,
  realpathSync,
  rmSync,
  statSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { messageOf } from "../../base/errors.ts";
import { isFileError, syncDirectory } from "../../files/file-system.ts";
import { openConnection, readStoreId } from "../files/connection.ts";
import { IncompatibleStoreError } from "../files/errors.ts";
import type { Backup } from "../sql/backend.ts";
import { heads } from "../sql/log-rows.ts";
import type { StorePaths } from "./paths.ts";
import { SqliteQueries } from "./queries.ts";
import { requireSchema, requireUnsealed } from "./schema.ts";

/**
 * Copies the store into one compact file of mode 0600. Writers continue in the write-ahead log, which grows meanwhile.
 * The file gets its name when it is complete, checked and on disk; if that fails, it is removed. The anchor and the key
 * are not copied. Throws an error for the operator.
 */
export async function backUpSqlite({ path, anchorPath }: StorePaths, target: string): Promise<Backup> {
  refuseOwnFiles(target, [path, anchorPath]);
  const partial = `${target}.partial`;
  closeSync(createPrivate(partial));
  try {
    copy(path, partial);
    const backup = await examine(partial);
    sync(partial);
    name(partial, target);
    return { ...backup, path: target, sizeBytes: statSync(target).size };
  } finally {
    for (const suffix of ["", "-journal"]) rmSync(partial + suffix, { force: true });
  }
}

/** SQLite also writes to files beside a database: their names are refused, whether they exist or not. */
function refuseOwnFiles(target: string, paths: readonly string[]): void {
  if (lstatSync(target, { throwIfNoEntry: false }) !== undefined)
    throw new IncompatibleStoreError(`${target} exists already: a backup replaces nothing.`, "--to");
  const directory = realPathIfThere(dirname(target));
  if (directory === undefined) throw new IncompatibleStoreError(`${dirname(target)} is missing.`, "--to");
  const place = join(directory, basename(target));
  const own = paths.flatMap((path) => {
    const real = realPathIfThere(path) ?? path;
    return [real, path].flatMap((each) => ["", "-wal", "-shm", "-journal"].map((suffix) => each + suffix));
  });
  if (own.includes(place) || own.includes(target))
    throw new IncompatibleStoreError(`${target} is the place of a file of the store itself.`, "--to");
}

function realPathIfThere(path: string): string | undefined {
  return existsSync(path) ? realpathSync(path) : undefined;
}

function createPrivate(path: string): number {
  try {
    return openSync(path, "wx", 0o600);
  } catch (error) {
    const problem = isFileError(error, ["EEXIST"])
      ? `${path} is there: another backup is under way. Remove it if none is.`
      : messageOf(error);
    throw new IncompatibleStoreError(problem, "--to", { cause: error });
  }
}

function copy(path: string, partial: string): void {
  using connection = openConnection({ path, readOnly: true });
  try {
    requireSchema(connection, path);
    requireUnsealed(connection, path);
    connection.prepare("VACUUM INTO ?").run(partial);
  } catch (error) {
    if (error instanceof IncompatibleStoreError) throw error;
    throw new Error(`${path} cannot be copied to ${partial}: ${messageOf(error)}`, { cause: error });
  }
}

/** Reads the copy's logs. Throws if SQLite finds it damaged, as the source then is. */
async function examine(partial: string): Promise<Pick<Backup, "storeId" | "logs">> {
  using connection = openConnection({ path: partial, readOnly: true });
  const found = connection.prepare("PRAGMA quick_check(1)").get()?.quick_check;
  if (found !== "ok") throw new Error(`the copy is damaged: ${String(found)}`);
  return { storeId: readStoreId(connection), logs: await heads(new SqliteQueries(connection)) };
}

function sync(path: string): void {
  const file = openSync(path, "r+");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** A link, unlike a rename, fails if another process has put a file there meanwhile. */
function name(partial: string, target: string): void {
  linkSync(partial, target);
  rmSync(partial);
  syncDirectory(dirname(target));
}
