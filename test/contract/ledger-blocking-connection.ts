/** A connection whose searches wait until they are let go. Runs in the store's threads, and shares a cell with the test. */
import {
  type ConnectionOptions,
  openConnection as openReal,
  type SqliteConnection,
} from "../../src/stores/files/connection.ts";

/** Of the cells: how many searches have begun, and how many may go on. */
const begun = 0;
const released = 1;

/** The test's end. */
export class SearchGate {
  readonly cells = new Int32Array(new SharedArrayBuffer(8));

  /** Searches that have begun so far. */
  get begun(): number {
    return Atomics.load(this.cells, begun);
  }

  /** Lets so many searches go on, of those that wait and those to come. */
  release(count: number): void {
    Atomics.add(this.cells, released, count);
    Atomics.notify(this.cells, released);
  }
}

/** Takes the place of `openConnection` in `connection.ts`; the second argument is the gate's cells. */
export function openConnection(options: ConnectionOptions, cells: Int32Array): SqliteConnection {
  const real = openReal(options);
  return {
    exec: (sql) => real.exec(sql),
    prepare(sql) {
      const statement = real.prepare(sql);
      // What every search asks first, and no other read.
      if (!options.readOnly || !sql.includes("FROM search_keys")) return statement;
      return {
        run: (...parameters) => statement.run(...parameters),
        get: (...parameters) => statement.get(...parameters),
        iterate(...parameters) {
          const turn = Atomics.add(cells, begun, 1);
          for (let seen = Atomics.load(cells, released); seen <= turn; seen = Atomics.load(cells, released))
            Atomics.wait(cells, released, seen);
          return statement.iterate(...parameters);
        },
      };
    },
    close: () => real.close(),
    get isTransaction() {
      return real.isTransaction;
    },
  };
}
