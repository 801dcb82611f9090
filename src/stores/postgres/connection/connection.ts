/** A pooled connection, lent for one unit of work. Statements are pipelined. */
import type { Duplex } from "node:stream";
import type { ClientBase, PoolClient } from "pg";
import { systemTimers } from "../../../base/timers.ts";
import {
  type Answer,
  columnsOf,
  type Queries,
  queryRows,
  type Row,
  type TenantRow,
  type TenantStatement,
  type Transaction,
  type Value,
} from "../../sql/queries.ts";
import type { Table } from "../../sql/schema.ts";
import { prepared } from "./arrays.ts";
import { CalledOffError, isInFailedTransaction, UnknownOutcomeError } from "./errors.ts";

/** Time limit of the work, and so of its commit. */
export interface SessionLimit {
  remainingMs(): number;
  /** Asks the server to cancel the statement of this process. Does not reject. */
  callOff(processId: number): Promise<void>;
}

/** Share of the remaining time that a commit may take. */
const commitShare = 0.9;

export class PostgresConnection implements Transaction {
  readonly #client: PoolClient;
  readonly #queries: Queries;
  readonly #limit: SessionLimit;
  #notices = 0;
  #isBroken = false;
  #isCommitting = false;
  #isEnded = false;
  /** Error of the first statement that failed. */
  #failure: unknown;
  readonly #onNotice = () => {
    this.#notices += 1;
  };
  /** Pending statements reject by themselves; without a listener the process would exit. */
  readonly #onError = () => {
    this.#isBroken = true;
  };

  constructor(client: PoolClient, limit: SessionLimit) {
    this.#client = client;
    this.#limit = limit;
    this.#queries = queriesOf(client);
    client.on("notice", this.#onNotice);
    client.on("error", this.#onError);
  }

  /** Whether a commit was sent: only its answer shows whether it is durable. */
  get isCommitting(): boolean {
    return this.#isCommitting;
  }

  /** Cancels the statement under way. Sends nothing more on this connection. */
  end(): void {
    this.#isEnded = true;
    this.#callOff();
  }

  async query(statement: string, values: readonly unknown[]): Promise<Answer> {
    try {
      return await this.#queries.query(statement, values);
    } catch (error) {
      // Statements behind a failed one report only that one failed.
      this.#failure ??= error;
      throw isInFailedTransaction(error) ? this.#failure : error;
    }
  }

  /** One statement, whatever the number of rows. */
  async insert(table: Table, rows: readonly (readonly Value[])[]): Promise<void> {
    if (rows.length > 0) await queryRows(this, insertionInto(table), rows as readonly TenantRow[]);
  }

  /** One statement, whatever the number of rows. */
  async each({ ofOne, ofMany }: TenantStatement, rows: readonly TenantRow[]): Promise<number> {
    const [first] = rows;
    const isOne = rows.length === 1 && first !== undefined;
    return (await (isOne ? this.query(ofOne, first) : this.query(ofMany, columnsOf(rows)))).count;
  }

  async command(sql: string): Promise<string> {
    if (this.#isEnded) throw new CalledOffError("The work on this connection was canceled.");
    return (await this.#client.query(sql)).command;
  }

  /**
   * Waits for a commit. Rejects with `UnknownOutcomeError` if it comes with a notice: the server then did not wait for
   * its synchronous standby. The server's own time limit does not cover that wait. A commit that takes too long is
   * cancelled here, or it would keep its locks without end; a little early, so that the server's answer to that still
   * counts.
   */
  async committing<Result>(commit: () => Promise<Result>): Promise<Result> {
    if (this.#isEnded) throw new CalledOffError("The work on this connection was canceled.");
    const before = this.#notices;
    const stop = systemTimers.after(this.#limit.remainingMs() * commitShare, () => this.#callOff());
    this.#isCommitting = true;
    const result = await commit().finally(stop);
    this.#isCommitting = false;
    if (this.#notices !== before)
      throw new UnknownOutcomeError("The commit came back with a warning: it may not have reached the standby.");
    return result;
  }

  /** A late cancel may hit the next statement, so the connection is not used again. */
  #callOff(): void {
    this.#isBroken = true;
    const { processID } = this.#client as { readonly processID?: number };
    if (processID !== undefined) void this.#limit.callOff(processID);
  }

  /** Returns the connection to the pool. One that failed, or is still in a transaction, is closed. */
  release(): void {
    this.#client.off("notice", this.#onNotice);
    this.#client.off("error", this.#onError);
    this.#client.release(this.#isBroken || this.#client.getTransactionStatus() !== "I");
    // The driver would wait for a server that does not answer, and keep the connection's place in the pool.
    if (this.#isEnded) socketOf(this.#client).destroy();
  }
}

/** The driver has no other way to close a connection with statements under way. */
function socketOf(client: ClientBase): Duplex {
  return (client as unknown as { readonly connection: { readonly stream: Duplex } }).connection.stream;
}

/** Queries on a connection outside the pool. */
export function queriesOf(client: ClientBase): Queries {
  return {
    async query(statement, values) {
      const { rows, rowCount } = await client.query<Row>(prepared(statement, values));
      return { rows, count: rowCount ?? 0 };
    },
  };
}

/**
 * If all rows are one tenant's, the tenant comes from the head of its log, which exists and is locked: a cluster then
 * runs the statement on the tenant's node. For plain rows the coordinator makes a copy stream, which hides the cause of
 * an error. On one server the rows may be of many tenants.
 */
export function insertionInto(table: Table): TenantStatement {
  const { name, columns, onConflict = "" } = table;
  const known = insertions.get(table);
  if (known !== undefined) return known;
  const into = `INSERT INTO ${name} (${Object.keys(columns).join(", ")})`;
  const [tenants, ...arrays] = Object.values(columns).map((type, at) => `$${at + 1}::${type}[]`);
  const insertion = {
    ofOne: `${into} SELECT head.tenant_id, row.* FROM log_heads head, unnest(${arrays.join(", ")}) AS row
       WHERE head.tenant_id = $1 ${onConflict}`,
    ofMany: `${into} SELECT * FROM unnest(${[tenants, ...arrays].join(", ")}) ${onConflict}`,
  };
  insertions.set(table, insertion);
  return insertion;
}

const insertions = new Map<Table, TenantStatement>();
