/**
 * Ties the database file to its write-ahead log. Every write transaction increments a mark in its own page. The file
 * must have the mark from right before the log begins, or a later one up to the log's last. An older copy of the file
 * lacks pages that were copied into the newer one before the log was restarted, and SQLite would not notice.
 */
import { closeSync, existsSync, openSync, readFileSync, readSync, realpathSync } from "node:fs";
import { IncompatibleStoreError } from "../files/errors.ts";

/** Precedes the mark's digits, and occurs nowhere else in a store. */
const magic = Buffer.from("d1c7a3f09b5e4c62-changes:");
const digits = 15;

export const countChange = `UPDATE store_changes
     SET changes = changes + 1, mark = '${magic}' || printf('%0${digits}d', changes + 1)`;

/** Returns the mark after so many changes; a new store has that of 0. */
export function markOf(changes: number): string {
  return magic + String(changes).padStart(digits, "0");
}

/** A concurrent process can look like a fault, but not every time. */
const maxLooks = 5;

/** Throws `IncompatibleStoreError` if the log is another file's. Must be called before SQLite opens the file. */
export function requireOwnLog(path: string): void {
  let problem: string | undefined;
  for (let look = 0; look < maxLooks; look++) {
    problem = findProblem(path);
    if (problem === undefined) return;
  }
  throw new IncompatibleStoreError(
    `${path} and ${path}-wal do not belong together: ${problem}. Nothing was changed. Put the file back that the -wal file ` +
      "is of; where there is none, move the -wal and -shm files away, and the anchor says what is missing.",
  );
}

function findProblem(path: string): string | undefined {
  if (!existsSync(path) || !existsSync(`${path}-wal`)) return undefined;
  const real = realpathSync(path);
  const { marks, pages, pageBytes } = readLog(`${real}-wal`);
  const [first, last] = [marks[0], marks.at(-1)];
  if (first === undefined || last === undefined) return undefined;
  // A mark of 0 is there from its beginning; before that there is none.
  const own = Math.max(...pages.map((page) => readMark(real, page, pageBytes) ?? -1));
  if (own < first - 1)
    return `the file is an older copy, of change ${own}, and the -wal file begins after ${first - 1}`;
  if (own > last) return `the file is of change ${own}, and the -wal file is older and ends with ${last}`;
  return undefined;
}

/** https://sqlite.org/fileformat2.html#the_write_ahead_log */
const headerBytes = 32;
const frameHeaderBytes = 24;

/** Returns the marks in the frames of a log, in order, and their pages. */
function readLog(path: string) {
  const log = readFileSync(path);
  const [marks, pages] = [[] as number[], new Set<number>()];
  const pageBytes = log.length < headerBytes ? 0 : log.readUInt32BE(8);
  const frameBytes = frameHeaderBytes + pageBytes;
  for (let at = headerBytes; pageBytes > 0 && at + frameBytes <= log.length; at += frameBytes) {
    // Later frames are of an earlier log in the same file.
    if (log.compare(log, 16, 24, at + 8, at + 16) !== 0) break;
    const mark = markIn(log.subarray(at + frameHeaderBytes, at + frameBytes));
    if (mark === undefined) continue;
    marks.push(mark);
    pages.add(log.readUInt32BE(at));
  }
  return { marks, pages: [...pages], pageBytes };
}

function readMark(path: string, page: number, pageBytes: number): number | undefined {
  const file = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(pageBytes);
    return markIn(bytes.subarray(0, readSync(file, bytes, 0, pageBytes, (page - 1) * pageBytes)));
  } finally {
    closeSync(file);
  }
}

function markIn(page: Buffer): number | undefined {
  const at = page.indexOf(magic);
  const text = at < 0 ? "" : page.toString("latin1", at + magic.length, at + magic.length + digits);
  return /^\d+$/.test(text) ? Number(text) : undefined;
}
