/** The connection pool of a process: deadlines, cancellation, retries, and replacement of failed connections. */
import { AsyncLocalStorage } from "node:async_hooks";
import { Client, Pool, type PoolClient } from "pg";
import { outsideConnections, systemTimers } from "../../../base/timers.ts";
import type { StoreLogger } from "../../sql/backend.ts";
import type { Answer, Queries } from "../../sql/queries.ts";
import { Bulkhead } from "./bulkhead.ts";
import { type ConnectionSettings, clientOptions, planByKeys, prepareConnection } from "./client-options.ts";
import { PostgresConnection } from "./connection.ts";
import { CalledOffError, isRetryable, isTooManyConnections, TransactionError, UnknownOutcomeError } from "./errors.ts";

export interface ConnectionPoolOptions extends ConnectionSettings {
  readonly poolSize: number;
  /** Bound of everything that one piece of work waits for: connection, locks, statements, attempts. Milliseconds. */
  readonly timeoutMs: number;
  /** Bound of one piece of work if that is longer: `timeoutMs` then bounds each of its waits. Milliseconds. */
  readonly workTimeoutMs?: number;
  readonly logger?: StoreLogger | undefined;
}

/** All statements see the database as it was at the first one. */
export const beginSnapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/** Attempts at work that did not cause its failure, the first included. */
const maxAttempts = 4;

/** How long the pool asks a server without free connections for no more, in milliseconds. */
const scarceMs = 10_000;
/** Pause of a pool without any connection. */
const emptyPauseMs = 50;

export class ConnectionPool implements Queries {
  readonly #pool: Pool;
  readonly #timeoutMs: number;
  readonly #options: ConnectionPoolOptions;
  readonly bulkhead: Bulkhead;
  readonly #turns = new AsyncLocalStorage<Turn>();
  #established = 0;
  #isScarce = false;

  /** Connects on first use. Throws a file system error if a certificate cannot be read. */
  constructor(options: ConnectionPoolOptions) {
    this.#options = options;
    this.#timeoutMs = options.workTimeoutMs ?? options.timeoutMs;
    this.bulkhead = new Bulkhead(Math.max(1, Math.floor(options.poolSize / 2)), (key) =>
      options.logger?.warn({ stuck: key }, "the database is too slow for the work of this tenant or key"),
    );
    this.#pool = new Pool({
      ...clientOptions(options, options.timeoutMs),
      max: options.poolSize,
      idleTimeoutMillis: 60_000,
      onConnect: async (client) => {
        await prepareConnection(client);
        await planByKeys(client);
      },
    });
    // An idle connection failed: the pool makes another when one is needed.
    this.#pool.on("connect", () => void this.#established++).on("remove", () => void this.#established--);
    this.#pool.on("error", (error) => options.logger?.warn({ cause: error.message }, "a database connection was lost"));
  }

  /** Reads with one statement, and repeats it if the connection was lost. */
  query(statement: string, values: readonly unknown[]): Promise<Answer> {
    const key = keyOf(values);
    return this.retrying(() => this.#withConnection(key, (connection) => connection.query(statement, values)), key);
  }

  /** Runs one statement as its own transaction; durable when it resolves. */
  write(statement: string, values: readonly unknown[]): Promise<Answer> {
    return this.#withConnection(keyOf(values), (connection) =>
      connection.committing(() => connection.query(statement, values)),
    );
  }

  /**
   * Runs work in one transaction, durable when it resolves. The work's first statements travel with the BEGIN. Rejects
   * with `UnknownOutcomeError` if the outcome is unknown; after any other error nothing was committed.
   * @param lockTimeoutMs bound of each wait for a lock, if that is less than the time limit
   */
  transaction<Result>(
    work: (connection: PostgresConnection) => Promise<Result>,
    lockTimeoutMs?: number,
  ): Promise<Result> {
    const bound = lockTimeoutMs === undefined ? "" : `; SET LOCAL lock_timeout = ${lockTimeoutMs}`;
    const begin = `BEGIN ISOLATION LEVEL READ COMMITTED${bound}`;
    return this.#withConnection(ownKey, (connection) => inTransaction(connection, begin, work, commit));
  }

  /** Reads in one snapshot, and repeats it if the connection was lost. The work must have no other effect. */
  snapshot<Result>(work: (queries: Queries) => Promise<Result>, key: string): Promise<Result> {
    const read = (connection: PostgresConnection) => inTransaction(connection, beginSnapshot, work, rollBack);
    return this.retrying(() => this.#withConnection(key, read), key);
  }

  /**
   * Repeats work, a few times, that committed nothing and did not cause its failure. One time limit bounds all attempts
   * and waits. The key names the tenant of the work, if there is one.
   */
  retrying<Result>(work: () => Promise<Result>, key: string | typeof ofMany = ownKey): Promise<Result> {
    const turn = this.#turnOf(key);
    return this.#turns.run(turn, async () => {
      for (let attempt = 1; ; attempt++) {
        try {
          return await work();
        } catch (error) {
          if (attempt === maxAttempts || remainingMs(turn) === 0 || !isRetryable(error)) throw error;
        }
      }
    });
  }

  /**
   * Does work that uses several connections, one after the other, under one time limit.
   * @param endsAtMs latest end, in `performance.now` time
   */
  together<Result>(work: () => Promise<Result>, endsAtMs = Number.POSITIVE_INFINITY): Promise<Result> {
    const turn = this.#turns.getStore();
    const ownEndMs = turn?.endsAtMs ?? performance.now() + this.#timeoutMs;
    return this.#turns.run({ ...turn, endsAtMs: Math.min(ownEndMs, endsAtMs) }, work);
  }

  /** Waits for a shared result within the time limit. Rejects as it does, or with `TransactionError`. */
  inTime<Result>(shared: Promise<Result>): Promise<Result> {
    return this.#inTime(this.#turnOf(ownKey), shared);
  }

  /** Waits for the work under way, then closes every connection. */
  async close(): Promise<void> {
    await this.#pool.end();
  }

  /** Returns the current turn, or begins one; it is of this key if it has none yet. */
  #turnOf(key: string | typeof ofMany): Required<Turn> {
    const turn = this.#turns.getStore();
    return { key: turn?.key ?? key, endsAtMs: turn?.endsAtMs ?? performance.now() + this.#timeoutMs };
  }

  #withConnection<Result>(key: string, work: (connection: PostgresConnection) => Promise<Result>): Promise<Result> {
    const turn = this.#turnOf(key);
    return this.bulkhead.run(
      tenantKeyOf(turn),
      () => remainingMs(turn),
      () => this.#connect(turn),
      (client, onOver) => this.#within(turn, client, onOver, work),
    );
  }

  /** Does work on a connection, until its time limit ends, or other work needs the connection and nothing is lost. */
  async #within<Result>(
    turn: Required<Turn>,
    client: PoolClient,
    onOver: (end: () => void) => void,
    work: (connection: PostgresConnection) => Promise<Result>,
  ): Promise<Result> {
    const connection = new PostgresConnection(client, {
      remainingMs: () => Math.min(remainingMs(turn), this.#options.timeoutMs),
      callOff: (processId) => callOff(this.#options, processId),
    });
    const ended = Promise.withResolvers<never>();
    const end = (error: Error) => {
      this.bulkhead.noteStuck(tenantKeyOf(turn));
      connection.end();
      ended.reject(error);
    };
    const cancel = systemTimers.after(remainingMs(turn), () =>
      end(connection.isCommitting ? new UnknownOutcomeError("A commit took too long.") : tookTooLong()),
    );
    onOver(() => {
      if (!connection.isCommitting) end(new CalledOffError("It was slow, and its connection was needed."));
    });
    try {
      return await Promise.race([work(connection), ended.promise]);
    } finally {
      cancel();
      connection.release();
    }
  }

  /** A connection that comes too late returns to the pool. If the server has no further one, waits for one of ours. */
  async #connect(turn: Turn): Promise<PoolClient> {
    for (;;) {
      const connecting = outsideConnections(() => this.#pool.connect());
      try {
        return await this.#inTime(turn, connecting);
      } catch (error) {
        connecting.then((client) => client.release()).catch(() => {});
        if (!isTooManyConnections(error) || remainingMs(turn) === 0) throw error;
        await this.#makeDo(turn);
      }
    }
  }

  /** Asks the server for no further connections for some time; pauses if the pool has none. */
  async #makeDo(turn: Turn): Promise<void> {
    const { options } = this.#pool;
    if (!this.#isScarce) {
      this.#isScarce = true;
      this.#options.logger?.warn({ connections: this.#established }, "the database gives no more connections");
      systemTimers.after(scarceMs, () => {
        this.#isScarce = false;
        options.max = this.#options.poolSize;
      });
    }
    options.max = Math.max(1, this.#established);
    if (this.#established > 0) return;
    const paused = Promise.withResolvers<void>();
    systemTimers.after(Math.min(emptyPauseMs, remainingMs(turn)), paused.resolve);
    await paused.promise;
  }

  async #inTime<Result>(turn: Turn, waitedFor: Promise<Result>): Promise<Result> {
    const late = Promise.withResolvers<never>();
    const cancel = systemTimers.after(remainingMs(turn), () => late.reject(tookTooLong()));
    return Promise.race([waitedFor, late.promise]).finally(cancel);
  }
}

/** Work for one key, which may take several attempts and several connections, one after the other. */
interface Turn {
  /** Absent if each part of the work names its own. */
  readonly key?: string | typeof ofMany;
  /** In `performance.now` time. */
  readonly endsAtMs: number;
}

/** Key of the service's own work. */
const ownKey = "the service";
/** Key of statements on the rows of all tenants. */
const keyOfAll = "all tenants";
/** In place of a key: work of many tenants that waits for none of them. */
export const ofMany: unique symbol = Symbol("many tenants");

/** The key for the bulkhead; undefined for work of many. */
const tenantKeyOf = ({ key }: Required<Turn>) => (key === ofMany ? undefined : key);

const remainingMs = ({ endsAtMs }: Turn) => Math.max(0, endsAtMs - performance.now());

const tookTooLong = () => new TransactionError("The database did not do it in time.");

/** The first value of a statement on tenants' rows is the tenant; other statements have a key there, if any. */
function keyOf([first]: readonly unknown[]): string {
  return typeof first === "string" && first !== "" ? first : keyOfAll;
}

/** Uses a new connection: those of the pool may all be blocked. */
async function callOff(options: ConnectionPoolOptions, processId: number): Promise<void> {
  const client = new Client(clientOptions(options, options.timeoutMs));
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query("SELECT pg_cancel_backend($1)", [processId]);
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    options.logger?.warn({ cause }, "a commit that takes too long could not be canceled");
  } finally {
    await client.end().catch(() => {});
  }
}

async function inTransaction<Result>(
  connection: PostgresConnection,
  begin: string,
  work: (connection: PostgresConnection) => Promise<Result>,
  end: (connection: PostgresConnection) => Promise<void>,
): Promise<Result> {
  const begun = connection.command(begin);
  try {
    const [result] = await Promise.all([work(connection), begun]);
    await end(connection);
    return result;
  } catch (error) {
    if (!(error instanceof UnknownOutcomeError)) await rollBack(connection);
    throw error;
  }
}

/** If this fails, the connection is closed, and the server rolls back. */
async function rollBack(connection: PostgresConnection): Promise<void> {
  await connection.command("ROLLBACK").catch(() => {});
}

async function commit(connection: PostgresConnection): Promise<void> {
  const tag = await connection.committing(() =>
    connection.command("COMMIT").catch((cause: unknown) => {
      throw new UnknownOutcomeError("The answer to a commit was lost.", { cause });
    }),
  );
  if (tag !== "COMMIT") throw new Error("The transaction was rolled back.");
}
