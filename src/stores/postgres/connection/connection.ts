/** A pooled connection, lent for one unit of work. Statements are pipelined. */

import type { Duplex } from "node:stream";
import type { ClientBase, PoolClient } from "pg";
import type { Timers } from "../../../base/timers.ts";
import type { Answer, Queries, Row, Statement, Transaction, Value } from "../../sql/queries.ts";
import type { ColumnType, Table } from "../../sql/tables.ts";
import { bigintArray, byteaArray, integerArray, textArray } from "./arrays.ts";
import { CalledOffError, isInFailedTransaction, UnknownOutcomeError } from "./errors.ts";

/** How long the work may take, and so its commit. */
export interface SessionLimit {
  readonly timers: Timers;
  remainingMs(): number;
  /** Asks the server to end what its process with this number does. Does not reject. */
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
  /** Of the first statement that failed. */
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

  /** Calls off what is under way. Nothing is sent on this connection any more. */
  end(): void {
    this.#isEnded = true;
    this.#callOff();
  }

  async query(statement: Statement, values: readonly unknown[]): Promise<Answer> {
    try {
      return await this.#queries.query(statement, values);
    } catch (error) {
      // Statements that were sent behind one that failed say only that one did.
      this.#failure ??= error;
      throw isInFailedTransaction(error) ? this.#failure : error;
    }
  }

  async insert(table: Table, rows: readonly (readonly Value[])[]): Promise<void> {
    await insertRows(this, table, rows);
  }

  /** Runs SQL that is not prepared; resolves with its command tag. */
  async command(sql: string): Promise<string> {
    if (this.#isEnded) throw new CalledOffError("The work on this connection was called off.");
    return (await this.#client.query(sql)).command;
  }

  /**
   * Waits for something that commits. Rejects with `UnknownOutcomeError` where it comes with a notice: that is how the
   * server says that it did not wait for its synchronous standby. The server's own time limit ends before that wait: one
   * that takes too long is called off here, or it would go on for ever and keep its locks; a little before its time is
   * over, so that the server's answer to that still counts.
   */
  async committing<Result>(commit: () => Promise<Result>): Promise<Result> {
    if (this.#isEnded) throw new CalledOffError("The work on this connection was called off.");
    const before = this.#notices;
    const stop = this.#limit.timers.after(this.#limit.remainingMs() * commitShare, () => this.#callOff());
    this.#isCommitting = true;
    const result = await commit().finally(stop);
    this.#isCommitting = false;
    if (this.#notices !== before)
      throw new UnknownOutcomeError("The commit came back with a warning: it may not have reached the standby.");
    return result;
  }

  /** What is called off late may be the next statement: the connection is not used again. */
  #callOff(): void {
    this.#isBroken = true;
    const { processID } = this.#client as { readonly processID?: number };
    if (processID !== undefined) void this.#limit.callOff(processID);
  }

  /** Gives the connection back; one that failed, or is in a transaction still, is closed. */
  release(): void {
    this.#client.off("notice", this.#onNotice);
    this.#client.off("error", this.#onError);
    this.#client.release(this.#isBroken || this.#client.getTransactionStatus() !== "I");
    // The driver would wait for the answers of a server that gives none, and keep its place in the pool until then.
    if (this.#isEnded) socketOf(this.#client).destroy();
  }
}

/** The driver has no other way to end a connection on which statements are under way. */
function socketOf(client: ClientBase): Duplex {
  return (client as unknown as { readonly connection: { readonly stream: Duplex } }).connection.stream;
}

/** What can be asked on a connection of one's own. */
export function queriesOf(client: ClientBase): Transaction {
  const queries: Queries = {
    async query({ name, text }, values) {
      const { rows, rowCount } = await client.query<Row>({ name, text, values: [...values] });
      return { rows, count: rowCount ?? 0 };
    },
  };
  return { ...queries, insert: (table, rows) => insertRows(queries, table, rows) };
}

/**
 * One statement, whatever the number of rows. Where all are one tenant's, their tenant comes from the head of its log,
 * which is there and locked: on a cluster the statement then runs where the tenant's rows are; of rows that stand alone
 * the coordinator makes a copy stream, which hides what an error is about. On one server they may be of many.
 */
async function insertRows(queries: Queries, table: Table, rows: readonly (readonly Value[])[]): Promise<void> {
  const [first] = rows;
  if (first === undefined) return;
  const isOfOne = rows.every(([tenantId]) => tenantId === first[0]);
  const arrays = Object.values(table.columns).map((type, position) =>
    isOfOne && position === 0 ? first[0] : arrayOf(type, rows, position),
  );
  await queries.query(insertion(table, isOfOne), arrays);
}

function insertion({ name, columns, onConflict = "" }: Table, isOfOne: boolean): Statement {
  const known = insertions.get(`${name} ${isOfOne}`);
  if (known !== undefined) return known;
  const arrays = Object.values(columns).map((type, position) => `$${position + 1}::${type}[]`);
  const rows = isOfOne
    ? `SELECT head.tenant_id, row.* FROM log_heads head, unnest(${arrays.slice(1).join(", ")}) AS row
        WHERE head.tenant_id = $1`
    : `SELECT * FROM unnest(${arrays.join(", ")})`;
  const statement = {
    name: `insert_${name}${isOfOne ? "" : "_of_many"}`,
    text: `INSERT INTO ${name} (${Object.keys(columns).join(", ")}) ${rows} ${onConflict}`,
  };
  insertions.set(`${name} ${isOfOne}`, statement);
  return statement;
}

/** As many as there are tables, twice. */
const insertions = new Map<string, Statement>();

function arrayOf(type: ColumnType, rows: readonly (readonly Value[])[], position: number): Buffer {
  const values = rows.map((row) => row[position]);
  if (type === "bytea") return byteaArray(values as Uint8Array[]);
  if (type === "text") return textArray(values as string[]);
  return type === "integer" ? integerArray(values as number[]) : bigintArray(values as number[]);
}
