/** An empty database that a store is copied to. Short transactions, each of one tenant and under the copy's mark. */
import type { Clock } from "../../../base/clock.ts";
import type { RandomFill } from "../../../base/ids.ts";
import { systemTimers } from "../../../base/timers.ts";
import type { LogState } from "../../../ledger/ports/store.ts";
import { logNameOf } from "../../../ledger/tlog/log-name.ts";
import { IncompatibleStoreError } from "../../errors.ts";
import { readStoreId } from "../../sql/anchoring.ts";
import { namingLog } from "../../sql/log-statements.ts";
import type { Queries, Statement } from "../../sql/queries.ts";
import { sharedTables, type Table, tenantTables } from "../../sql/tables.ts";
import type { ConnectionSettings } from "../connection/client-options.ts";
import type { PostgresConnection } from "../connection/connection.ts";
import { ConnectionPool } from "../connection/pool.ts";
import { isComplete, requireSchema } from "./migrate.ts";

/** A value as both kinds of store give and take it. */
type Value = null | number | string | Uint8Array;

export interface CopyTargetOptions extends ConnectionSettings {
  readonly clock: Clock;
  readonly random: RandomFill;
}

/** Bound of each wait. Long, because counting a large table is slow, and no gateway serves from it yet. */
const timeoutMs = 600_000;

const tables = [...sharedTables, ...tenantTables];

/** The row that gateways lock at start-up. A starting gateway has noted its key by then, or finds the mark. */
const lockStore: Statement = { name: "lock_store", text: "SELECT 1 FROM store WHERE singleton = 1 FOR UPDATE" };
const takeMark: Statement = {
  name: "take_copy_mark",
  text: "UPDATE store SET copy_under_way = $1 WHERE singleton = 1",
};
/** A shared lock: another copy waits for this transaction, and no transaction follows after it. */
const holdMark: Statement = {
  name: "hold_copy_mark",
  text: "SELECT 1 FROM store WHERE singleton = 1 AND copy_under_way = $1 FOR SHARE",
};
/** Every log of the source is signed with the newest key: a rotation there hands over all logs at once. */
const noteKeys: Statement = {
  name: "note_keys_of_logs",
  text: "UPDATE log_heads SET key_position = $1",
};
const newestPosition: Statement = {
  name: "newest_position",
  text: "SELECT coalesce(max(position), 0) AS position FROM signing_keys",
};
const dropMark: Statement = {
  name: "drop_copy_mark",
  text: "UPDATE store SET copy_under_way = NULL WHERE singleton = 1 AND copy_under_way = $1",
};

export class PostgresCopyTarget {
  /** Distinguishes this run of the copy from every other. */
  readonly attempt: string;
  readonly #pool: ConnectionPool;

  private constructor(options: CopyTargetOptions) {
    this.#pool = new ConnectionPool({ ...options, poolSize: 1, timeoutMs, timers: systemTimers });
    this.attempt = Buffer.from(options.random(new Uint8Array(16))).toString("hex");
  }

  /** Changes nothing. Rejects with `IncompatibleStoreError` for another schema, or an error of the driver. */
  static async open(options: CopyTargetOptions): Promise<PostgresCopyTarget> {
    const target = new PostgresCopyTarget(options);
    try {
      await requireSchema(target.#pool);
      return target;
    } catch (error) {
      await target.close();
      throw error;
    }
  }

  storeId(): Promise<string> {
    return readStoreId(this.#pool);
  }

  /** Whether no copy to the database is under way or was interrupted. */
  isComplete(): Promise<boolean> {
    return isComplete(this.#pool);
  }

  /** Rejects with `IncompatibleStoreError` if the database has rows other than those of an interrupted copy. */
  requireEmpty(): Promise<void> {
    return requireEmpty(this.#pool);
  }

  /**
   * Marks the database, so that no gateway starts on it, and removes the rows of an earlier copy. Rejects like
   * `requireEmpty`. No gateway is running on it either, since a running gateway has noted its key.
   */
  async begin(): Promise<void> {
    await this.#pool.transaction(async (connection) => {
      await connection.query(lockStore, []);
      await requireEmpty(connection);
      await connection.query(takeMark, [this.attempt]);
      await connection.command(`TRUNCATE log_names, ${tables.map(({ name }) => name).join(", ")}`);
    });
  }

  /** Names the log of a tenant. Rejects like `write`. */
  nameLog({ tenantId, origin }: LogState): Promise<void> {
    const [statement, values] = namingLog(logNameOf(origin), tenantId);
    return this.#marked(async (connection) => {
      await connection.query(statement, values);
    });
  }

  /**
   * Writes rows of one table, and of one tenant if it has tenants; durable when it resolves. Rejects with
   * `IncompatibleStoreError` if another copy has begun, with an error of the driver otherwise.
   */
  write(table: Table, rows: readonly (readonly Value[])[]): Promise<void> {
    const types = Object.values(table.columns);
    const values = types.map((_, position) => rows.map((row) => row[position]));
    return this.#marked(async (connection) => {
      await connection.query(insertInto(table), values);
    });
  }

  async count({ name }: Table): Promise<number> {
    const statement = { name: `count_${name}`, text: `SELECT count(*)::bigint AS count FROM ${name}` };
    return Number((await this.#pool.query(statement, [])).rows[0]?.count);
  }

  /** Removes the mark, so that gateways can start. Rejects like `write`. */
  async finish(): Promise<void> {
    await this.#marked(async (connection) => {
      const [newest] = (await connection.query(newestPosition, [])).rows;
      await connection.query(noteKeys, [newest?.position]);
    });
    const { count } = await this.#pool.write(dropMark, [this.attempt]);
    if (count !== 1) throw anotherCopy();
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  #marked(work: (connection: PostgresConnection) => Promise<void>): Promise<void> {
    return this.#pool.retrying(() =>
      this.#pool.transaction(async (connection) => {
        const [held] = await Promise.all([connection.query(holdMark, [this.attempt]), work(connection)]);
        if (held.count !== 1) throw anotherCopy();
      }),
    );
  }
}

async function requireEmpty(queries: Queries): Promise<void> {
  // Rows of an interrupted copy may go: they were never served.
  if (!(await isComplete(queries))) return;
  for (const { name } of tables) {
    const statement = { name: `some_of_${name}`, text: `SELECT 1 FROM ${name} LIMIT 1` };
    if ((await queries.query(statement, [])).count > 0)
      throw new IncompatibleStoreError(
        `The database is not empty: it has ${name}. A store is copied only to a database that \`migrate\` has made and ` +
          "that no gateway has started on.",
      );
  }
}

function insertInto({ name, columns }: Table): Statement {
  const arrays = Object.values(columns).map((type, position) => `$${position + 1}::${type}[]`);
  const names = Object.keys(columns).join(", ");
  return { name: `copy_${name}`, text: `INSERT INTO ${name} (${names}) SELECT * FROM unnest(${arrays.join(", ")})` };
}

const anotherCopy = () => new IncompatibleStoreError("Another copy to the same database has begun: this one ends.");
