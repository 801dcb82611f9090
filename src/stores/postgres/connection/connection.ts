/** A pooled connection, lent for one unit of work. Statements are pipelined. */

import type { Duplex } from "node:stream";
import type { ClientBase, PoolClient } from "pg";
import type { Timers } from "../../../base/timers.ts";
import { CalledOffError, isInFailedTransaction, UnknownOutcomeError } from "./errors.ts";

export type Row = Record<string, unknown>;

/** A statement that is prepared once a connection, under a name that stands for this text alone. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

export interface Answer {
  readonly rows: readonly Row[];
  /** Rows that were returned or changed. */
  readonly count: number;
}

/** How long the work may take, and so its commit. */
export interface SessionLimit {
  readonly timers: Timers;
  remainingMs(): number;
  /** Asks the server to end what its process with this number does. Does not reject. */
  callOff(processId: number): Promise<void>;
}

/** Share of the remaining time that a commit may take. */
const commitShare = 0.9;

/** Anything that runs queries. */
export interface Queries {
  /** Rejects with an error of the driver. */
  query(statement: Statement, values: readonly unknown[]): Promise<Answer>;
}

export class PostgresConnection implements Queries {
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
export function queriesOf(client: ClientBase): Queries {
  return {
    async query({ name, text }, values) {
      const { rows, rowCount } = await client.query<Row>({ name, text, values: [...values] });
      return { rows, count: rowCount ?? 0 };
    },
  };
}
