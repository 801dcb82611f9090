/** A connection whose checkpoints in the thread for them wait until they are let go. The test shares a cell with it. */
import { threadName } from "node:worker_threads";
import {
  type ConnectionOptions,
  openConnection as openReal,
  type SqliteConnection,
} from "../../src/stores/files/connection.ts";

/** The test's end of the gate. */
export class CheckpointGate {
  readonly cells = new Int32Array(new SharedArrayBuffer(8));

  get begun(): number {
    return Atomics.load(this.cells, 0);
  }

  open(): void {
    Atomics.store(this.cells, 1, 1);
    Atomics.notify(this.cells, 1);
  }
}

/** Takes the place of `openConnection` in `connection.ts`; the second argument is the gate's cells. */
export function openConnection(options: ConnectionOptions, cells: Int32Array): SqliteConnection {
  const real = openReal(options);
  if (threadName !== "store-checkpointer") return real;
  return {
    exec(sql) {
      if (sql.includes("wal_checkpoint")) {
        Atomics.add(cells, 0, 1);
        Atomics.wait(cells, 1, 0);
      }
      real.exec(sql);
    },
    prepare: (sql) => real.prepare(sql),
    close: () => real.close(),
    get isTransaction() {
      return real.isTransaction;
    },
  };
}
