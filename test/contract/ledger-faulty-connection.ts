/** Connections that fail or wait on demand. They run in the store's threads; the test directs them through shared memory. */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { threadName } from "node:worker_threads";

type Parameters_ = Parameters<StatementSync["run"]>;

/** What happens at the armed operation; once. `stall` never returns, nor does any commit from `stallCommits` on. */
export const faults = {
  none: 0,
  failBefore: 1,
  failAfter: 2,
  dieBefore: 3,
  dieAfter: 4,
  stall: 5,
  stallCommits: 6,
} as const;
export type Fault = keyof typeof faults;

const faultCell = 0;
const countdownCell = 1;
const maxPagesCell = 2;
const stallCell = 3;
const commitsCell = 4;
/** Of what can be held: the cell of how many have begun; the next one has how many may go on. */
const gates = { searches: 5, checkpoints: 7 } as const;
type Gate = keyof typeof gates;
const unbounded = 2 ** 30;

/** The test's end. */
export class FaultControl {
  readonly cells = new Int32Array(new SharedArrayBuffer(36));

  /** @param held what waits from the beginning, until it is released */
  constructor(held?: Gate) {
    for (const gate of Object.keys(gates) as Gate[]) if (gate !== held) this.release(gate);
  }

  /** For the threads of a store. */
  get setup() {
    return { module: import.meta.url, data: this.cells };
  }

  /** Searches, or checkpoints in the thread for them, that have begun so far. */
  begun(gate: Gate): number {
    return Atomics.load(this.cells, gates[gate]);
  }

  /** Lets so many go on, of those that wait and those to come. */
  release(gate: Gate, count = unbounded): void {
    Atomics.add(this.cells, gates[gate] + 1, count);
    Atomics.notify(this.cells, gates[gate] + 1);
  }

  /** Arms the fault for the nth operation of the writing connection from now, counted from 1. */
  arm(fault: Fault, operation: number): void {
    Atomics.store(this.cells, countdownCell, operation);
    Atomics.store(this.cells, faultCell, faults[fault]);
  }

  /** Whether the armed fault has not happened. */
  get isArmed(): boolean {
    return Atomics.load(this.cells, faultCell) !== faults.none;
  }

  disarm(): void {
    Atomics.store(this.cells, faultCell, faults.none);
  }

  /** Commits so far, of store and anchor. */
  get commits(): number {
    return Atomics.load(this.cells, commitsCell);
  }

  /** Lets the file grow to so many pages only: SQLite then reports a full disk. 0 lifts the limit. */
  limitPages(pages: number): void {
    Atomics.store(this.cells, maxPagesCell, pages);
  }
}

/** Changes the connections that this thread opens from now on, until the returned function is called. */
export function prepare(cells: Int32Array): () => void {
  const real = { exec: DatabaseSync.prototype.exec, prepare: DatabaseSync.prototype.prepare };
  /** Connections that write, once all of their settings are made: before that nothing fails. */
  const writing = new WeakSet<DatabaseSync>();
  Object.assign(DatabaseSync.prototype, {
    exec(this: DatabaseSync, sql: string): void {
      const exec = (text: string) => real.exec.call(this, text);
      if (!writing.has(this)) {
        exec(sql);
        if (sql.startsWith("PRAGMA wal_autocheckpoint")) writing.add(this);
        return;
      }
      if (sql.startsWith("BEGIN"))
        exec(`PRAGMA max_page_count = ${Atomics.load(cells, maxPagesCell) || 4_294_967_294}`);
      if (sql === "COMMIT") Atomics.add(cells, commitsCell, 1);
      if (sql === "COMMIT" && Atomics.load(cells, faultCell) === faults.stallCommits) Atomics.wait(cells, stallCell, 0);
      if (sql.includes("wal_checkpoint") && threadName === "store-checkpointer") pass(cells, "checkpoints");
      withFault(cells, () => exec(sql));
    },

    prepare(this: DatabaseSync, sql: string): StatementSync {
      const statement = real.prepare.call(this, sql);
      // What every search asks first, and no other read.
      if (!writing.has(this) && sql.includes("FROM search_keys"))
        return {
          iterate(...values: Parameters_) {
            pass(cells, "searches");
            return statement.iterate(...values);
          },
        } as StatementSync;
      // The length of the write-ahead log is asked after the answer, so a fault there is of no call.
      if (!writing.has(this) || sql.includes("NOOP")) return statement;
      return {
        run: (...values: Parameters_) => withFault(cells, () => statement.run(...values)),
        get: (...values: Parameters_) => withFault(cells, () => statement.get(...values)),
        iterate: (...values: Parameters_) => withFault(cells, () => statement.iterate(...values)),
      } as StatementSync;
    },
  });
  return () => void Object.assign(DatabaseSync.prototype, real);
}

/** Waits until so many are released. */
function pass(cells: Int32Array, gate: Gate): void {
  const released = gates[gate] + 1;
  const turn = Atomics.add(cells, gates[gate], 1);
  for (let seen = Atomics.load(cells, released); seen <= turn; seen = Atomics.load(cells, released))
    Atomics.wait(cells, released, seen);
}

function withFault<Result>(cells: Int32Array, work: () => Result): Result {
  const armed = Atomics.load(cells, faultCell);
  if (armed === faults.none || armed === faults.stallCommits || Atomics.sub(cells, countdownCell, 1) !== 1)
    return work();
  Atomics.store(cells, faultCell, faults.none);
  if (armed === faults.failBefore) throw ioError();
  if (armed === faults.dieBefore) process.exit(1);
  if (armed === faults.stall) Atomics.wait(cells, stallCell, 0);
  const result = work();
  if (armed === faults.dieAfter) process.exit(1);
  if (armed === faults.failAfter) throw ioError();
  return result;
}

/** As node:sqlite reports SQLITE_IOERR. */
function ioError(): Error {
  return Object.assign(new Error("disk I/O error"), { code: "ERR_SQLITE_ERROR", errcode: 10 });
}
