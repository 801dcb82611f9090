/** The connections of a process: lent, watched, and replaced when they fail. */
import { Client, Pool } from "pg";
import type { Clock } from "../../base/clock.ts";
import { outsideConnections } from "../../base/connection.ts";
import type { Timers } from "../../base/timers.ts";
import { clientOptions, type PostgresConnection, prepareConnection } from "./client-options.ts";
import { isRetryable, UnknownOutcomeError } from "./errors.ts";
import { type Answer, type CommitLimit, type Queries, Session, type Statement } from "./session.ts";

/** The part of a logger that the store needs. */
export interface StoreLogger {
  warn(fields: Readonly<Record<string, unknown>>, message: string): void;
}

export interface SessionsOptions extends PostgresConnection {
  /** Connections at a time. */
  readonly poolSize: number;
  /** Bound of each wait: for a free connection, a connect, a lock, a statement. Milliseconds. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly logger?: StoreLogger | undefined;
}

/** All statements see the database as it was at the first one. */
export const beginSnapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/** Attempts at work that failed for no fault of its own, the first included. */
const maxAttempts = 4;

export class Sessions implements Queries {
  readonly #pool: Pool;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #commitLimit: CommitLimit;

  /** Connects when it is first asked. Throws a file system error where a certificate cannot be read. */
  constructor(options: SessionsOptions) {
    this.#clock = options.clock;
    this.#timeoutMs = options.timeoutMs;
    this.#commitLimit = {
      timers: options.timers,
      timeoutMs: options.timeoutMs,
      callOff: (processId) => callOff(options, processId),
    };
    this.#pool = new Pool({
      ...clientOptions(options, options.timeoutMs),
      max: options.poolSize,
      idleTimeoutMillis: 60_000,
      onConnect: prepareConnection,
    });
    // A connection that fails while nobody uses it: the pool makes another when one is needed.
    this.#pool.on("error", (error) => options.logger?.warn({ cause: error.message }, "a database connection was lost"));
  }

  /** Reads with one statement, again where the connection was lost. */
  query(statement: Statement, values: readonly unknown[]): Promise<Answer> {
    return this.retrying(() => this.#withSession((session) => session.query(statement, values)));
  }

  /** Runs one statement that is a transaction of its own; durable when it resolves. */
  write(statement: Statement, values: readonly unknown[]): Promise<Answer> {
    return this.#withSession((session) => session.committing(() => session.query(statement, values)));
  }

  /**
   * Runs work in one transaction, durable when it resolves. The work's first statements travel with the BEGIN. Rejects
   * with `UnknownOutcomeError` where it may have been committed or not; with anything else it was not.
   */
  transaction<Result>(work: (session: Session) => Promise<Result>): Promise<Result> {
    return this.#withSession(async (session) => {
      const begun = session.command("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
      try {
        const [result] = await Promise.all([work(session), begun]);
        await commit(session);
        return result;
      } catch (error) {
        // Where this fails too, the connection is closed, and the server rolls back by itself.
        if (!(error instanceof UnknownOutcomeError)) await session.command("ROLLBACK").catch(() => {});
        throw error;
      }
    });
  }

  /** Reads in one snapshot, and again where the connection was lost. The work has no other effect. */
  snapshot<Result>(work: (queries: Queries) => Promise<Result>): Promise<Result> {
    return this.retrying(() =>
      this.#withSession(async (session) => {
        const begun = session.command(beginSnapshot);
        try {
          const [result] = await Promise.all([work(session), begun]);
          return result;
        } finally {
          await session.command("ROLLBACK").catch(() => {});
        }
      }),
    );
  }

  /** Does work again that failed for no fault of its own and committed nothing: a few times, in bounded time. */
  async retrying<Result>(work: () => Promise<Result>): Promise<Result> {
    const startedAt = this.#clock.now();
    for (let attempt = 1; ; attempt++) {
      try {
        return await work();
      } catch (error) {
        const isLate = this.#clock.now() - startedAt >= this.#timeoutMs;
        if (attempt === maxAttempts || isLate || !isRetryable(error)) throw error;
      }
    }
  }

  /** Lets what is under way finish, then closes every connection. */
  async close(): Promise<void> {
    await this.#pool.end();
  }

  async #withSession<Result>(work: (session: Session) => Promise<Result>): Promise<Result> {
    const session = new Session(await outsideConnections(() => this.#pool.connect()), this.#commitLimit);
    try {
      return await work(session);
    } finally {
      session.release();
    }
  }
}

/** On a connection of its own: those of the pool may all be waiting for the same. */
async function callOff(options: SessionsOptions, processId: number): Promise<void> {
  const client = new Client(clientOptions(options, options.timeoutMs));
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query("SELECT pg_cancel_backend($1)", [processId]);
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    options.logger?.warn({ cause }, "a commit that takes too long could not be called off");
  } finally {
    await client.end().catch(() => {});
  }
}

async function commit(session: Session): Promise<void> {
  const tag = await session.committing(() =>
    session.command("COMMIT").catch((cause: unknown) => {
      throw new UnknownOutcomeError("The answer to a commit was lost.", { cause });
    }),
  );
  if (tag !== "COMMIT") throw new Error("The transaction was rolled back.");
}
