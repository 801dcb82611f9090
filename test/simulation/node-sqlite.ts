/**
 * Takes the place of `node:sqlite`: the same SQLite, whose operations fail, or end their process, before or after they
 * are done; and a disk that loses what was not synced.
 *
 * The disk is not another VFS. Which bytes are safe follows from what the connection asked SQLite for: with `synchronous`
 * FULL every commit syncs the write-ahead log, with NORMAL only a checkpoint does (https://sqlite.org/pragma.html). So
 * the product runs with the very library that it is deployed with, nothing has to be compiled, and a setting that is
 * wrong loses records here as it would there. SQLite's own calls of fsync are SQLite's to test.
 */
import { closeSync, fstatSync, openSync, readSync, rmSync, truncateSync } from "node:fs";
import { DatabaseSync as RealDatabase, type StatementSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { DeathError, machine, type Process } from "./machine.ts";

type Parameters_ = Parameters<StatementSync["run"]>;

/** How much of a write-ahead log was synced, and of which: a restarted one has another header. */
interface SyncedLog {
  readonly header: string;
  readonly sizeBytes: number;
}

const headerBytes = 32;

/**
 * What survives when the power goes. Between two events no checkpoint is under way, and each syncs the file that it has
 * written: only the end of a write-ahead log may be lost.
 */
class Disk {
  /** Kept only where a run asks for it. */
  isWatched = false;
  readonly #synced = new Map<string, SyncedLog>();

  reset(): void {
    this.isWatched = false;
    this.#synced.clear();
  }

  sync(path: string): void {
    if (this.isWatched) this.#synced.set(path, logOf(path));
  }

  /** This file is on another machine's disk. */
  forget(path: string): void {
    this.#synced.delete(path);
  }

  /** Cuts every log to what was synced, and perhaps some of what was written since. Nothing may be open. */
  losePower(): void {
    const { random } = machine();
    for (const [path, synced] of this.#synced) {
      const log = logOf(path);
      const safeBytes = log.header === synced.header ? synced.sizeBytes : 0;
      if (log.sizeBytes > safeBytes)
        truncateSync(`${path}-wal`, safeBytes + random.below(log.sizeBytes - safeBytes + 1));
      rmSync(`${path}-shm`, { force: true });
    }
  }
}

export const disk = new Disk();

function logOf(path: string): SyncedLog {
  let file: number;
  try {
    file = openSync(`${path}-wal`, "r");
  } catch {
    return { header: "", sizeBytes: 0 };
  }
  try {
    const header = Buffer.alloc(headerBytes);
    readSync(file, header, 0, headerBytes, 0);
    return { header: header.toString("latin1"), sizeBytes: fstatSync(file).size };
  } finally {
    closeSync(file);
  }
}

/** As node:sqlite reports it. */
function sqliteError(message: string, errcode: number): Error {
  return Object.assign(new Error(message), { code: "ERR_SQLITE_ERROR", errcode });
}

export class DatabaseSync extends RealDatabase {
  readonly #process: Process | undefined;
  readonly #path: string;
  readonly #isWriter: boolean;
  #syncs = "FULL";
  #isOpen = true;

  constructor(url: URL | string, options: ConstructorParameters<typeof RealDatabase>[1] = {}) {
    const process = machine().current;
    if (process?.isAlive === false) throw new DeathError();
    super(url, options);
    this.#process = process;
    this.#path = fileURLToPath(new URL(typeof url === "string" ? `file:${url}` : `file:${url.pathname}`));
    this.#isWriter = options.readOnly !== true;
    process?.onDeath(() => this.close());
  }

  override exec(sql: string): void {
    this.#operate(sql, () => super.exec(sql));
    const asked = /PRAGMA synchronous = (\w+)/.exec(sql)?.[1];
    if (asked !== undefined) this.#syncs = asked;
    this.#noteSync(sql);
  }

  override prepare(sql: string): StatementSync {
    if (this.#process?.isAlive === false) throw new DeathError();
    const statement = super.prepare(sql);
    const operate = <Result>(work: () => Result): Result => {
      const result = this.#operate(sql, work);
      this.#noteSync(sql);
      return result;
    };
    return {
      run: (...values: Parameters_) => operate(() => statement.run(...values)),
      get: (...values: Parameters_) => operate(() => statement.get(...values)),
      all: (...values: Parameters_) => operate(() => statement.all(...values)),
      iterate: (...values: Parameters_) => operate(() => statement.iterate(...values)),
    } as unknown as StatementSync;
  }

  override close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    super.close();
  }

  override [Symbol.dispose](): void {
    this.close();
  }

  #noteSync(sql: string): void {
    if (!disk.isWatched || !this.#isWriter || this.isTransaction) return;
    const isCheckpoint = sql.includes("wal_checkpoint");
    if (isCheckpoint || (this.#syncs === "FULL" && !sql.startsWith("SELECT"))) disk.sync(this.#path);
  }

  #operate<Result>(sql: string, work: () => Result): Result {
    const process = this.#process;
    if (process === undefined) return work();
    if (!process.isAlive) throw new DeathError();
    const { random, diskFaults, deaths } = machine();
    if (!process.hasFaults || !this.#isWriter || diskFaults === 0 || !random.chance(rateOf(sql) * diskFaults))
      return work();
    if (sql.startsWith("BEGIN") && random.chance(0.3)) throw sqliteError("database is locked", 5);
    const isAfter = random.chance(0.5);
    if (isAfter) work();
    if (random.chance(deaths)) {
      process.kill();
      throw new DeathError();
    }
    throw random.chance(0.3) ? sqliteError("database or disk is full", 13) : sqliteError("disk I/O error", 10);
  }
}

/** The end of a transaction, and the anchor's advance, are where outcomes are unknown. */
function rateOf(sql: string): number {
  // It comes after another failure, or never.
  if (sql === "ROLLBACK") return 100;
  return sql === "COMMIT" || sql.includes("anchored_logs") ? 10 : 1;
}

export type { StatementSync };
