/**
 * A simulated database server. It runs the product's statements for PostgreSQL on SQLite, by the product's own
 * translation, and keeps what counts for a ledger as PostgreSQL does: row locks of heads until the transaction ends, `SKIP
 * LOCKED`, lock timeouts, snapshots, failed transactions, commits that wait for a synchronous standby, and what is left
 * after a connection, the server or its machine is lost. Transactions that write take turns: how writes to different rows
 * overlap is PostgreSQL's to test.
 */
import { copyFileSync, rmSync } from "node:fs";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { DatabaseError } from "pg";
import { migrations } from "../../src/stores/postgres/schema.ts";
import type { Row } from "../../src/stores/sql/queries.ts";
import { sqliteText, toValue } from "../../src/stores/sqlite/queries.ts";
import { migrations as tablesOfSqlite } from "../../src/stores/sqlite/schema.ts";
import { machine } from "./machine.ts";

export interface Result {
  readonly rows: readonly Row[];
  readonly rowCount: number;
  readonly command: string;
}

export interface Message {
  readonly text: string;
  readonly values: readonly unknown[];
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

function databaseError(code: string, message: string, constraint?: string): DatabaseError {
  return Object.assign(new DatabaseError(message, 0, "error"), { code, constraint });
}

/** A connection as the server sees it. */
export class Session {
  readonly processId: number;
  readonly inbox: Message[] = [];
  readonly locks = new Set<string>();
  status: "I" | "T" | "E" = "I";
  /** Of a transaction that reads in one snapshot. */
  snapshot: DatabaseSync | undefined;
  lockTimeoutMs = 0;
  /** The message at the front waits: for a lock, for its turn to write, or for the standby. */
  stopWaiting: (() => void) | undefined;
  onCancel: (() => void) | undefined;
  isOpen = true;
  readonly answer: (message: Message, answer: Result | DatabaseError, notice?: boolean) => void;
  readonly end: () => void;
  readonly mayFail: () => boolean;

  constructor(processId: number, { answer, end, mayFail }: Pick<Session, "answer" | "end" | "mayFail">) {
    this.processId = processId;
    this.mayFail = mayFail;
    this.answer = answer;
    this.end = end;
  }
}

const waits = Symbol("waits");

/** The server, whose state is one file. */
export class Server {
  readonly path: string;
  readonly #statements = new Map<DatabaseSync, Map<string, StatementSync>>();
  readonly #sessions = new Set<Session>();
  readonly #waiting = new Set<Session>();
  #database: DatabaseSync;
  #committed: DatabaseSync;
  /** The session whose transaction writes. */
  #writer: Session | undefined;
  /** What the standby has, if it lacks the newest commits. */
  #standby: string | undefined;
  #standbyBackAtMs = 0;
  #processIds = 0;
  isDown = false;
  /** How often it was started again. */
  starts = 0;

  constructor(path: string) {
    this.path = path;
    const database = new DatabaseSync(path);
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF");
    for (const { sql } of tablesOfSqlite) database.exec(sql);
    database.exec(`
      DROP VIEW log_names;
      CREATE TABLE log_names (name TEXT PRIMARY KEY, tenant_id TEXT NOT NULL);
      CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL);
      INSERT INTO store (singleton, store_id, probed_at_ms, probe) VALUES (1, '${"5a".repeat(16)}', 0, x'');`);
    const note = database.prepare("INSERT INTO schema_migrations VALUES (?, ?)");
    for (const [at, { name }] of migrations.entries()) note.run(at + 1, name);
    this.#database = database;
    this.#committed = new DatabaseSync(path, { readOnly: true });
  }

  begin(client: Pick<Session, "answer" | "end" | "mayFail">): Session {
    const session = new Session(++this.#processIds, client);
    this.#sessions.add(session);
    return session;
  }

  /** Does what arrived, as far as it can. */
  run(session: Session): void {
    while (session.stopWaiting === undefined && session.onCancel === undefined) {
      const [message] = session.inbox;
      if (message === undefined) break;
      const answer = this.#answer(session, message);
      if (answer === waits) return;
      session.inbox.shift();
      session.answer(message, answer);
    }
    if (!session.isOpen && session.inbox.length === 0) this.#leave(session);
  }

  /** The client is gone. What it has sent may be done all the same, before its transaction is rolled back. */
  hangUp(session: Session, isDone: boolean): void {
    if (!session.isOpen) return;
    session.isOpen = false;
    if (!isDone && session.onCancel === undefined) session.inbox.length = 0;
    if (session.stopWaiting === undefined) this.run(session);
  }

  cancel(processId: number): void {
    const session = [...this.#sessions].find((one) => one.processId === processId);
    const [message] = session?.inbox ?? [];
    session?.onCancel?.();
    if (session?.stopWaiting === undefined || message === undefined) return;
    this.#refuse(session, message, databaseError("57014", "canceling statement due to user request"));
  }

  /** Ends all sessions; with `failover`, the standby takes its place, which has all that was confirmed. */
  restart(isFailover: boolean): void {
    for (const session of this.#sessions) {
      const isReplicated = session.onCancel !== undefined && machine().random.chance(0.5);
      session.onCancel = undefined;
      session.inbox.length = 0;
      if (isReplicated) this.#endTransaction(session, "COMMIT");
      this.#leave(session);
      session.isOpen = false;
      session.end();
    }
    if (isFailover && this.#standby !== undefined) this.load(this.#standby);
    this.isDown = true;
    machine().after(machine().latencyMs(300), "database starts", () => {
      this.isDown = false;
      this.starts += 1;
    });
  }

  /** Whether no transaction writes: then the state may be changed from outside. */
  get isFree(): boolean {
    return this.#writer === undefined;
  }

  save(path: string): void {
    rmSync(path, { force: true });
    this.#committed.exec(`VACUUM INTO '${path}'`);
  }

  /** Puts a saved state in the place of the server's. */
  load(path: string): void {
    const database = this.#database;
    copyFileSync(path, `${path}.load`);
    database.exec(`ATTACH '${path}.load' AS saved; BEGIN`);
    const tables = database.prepare("SELECT name FROM main.sqlite_schema WHERE type = 'table'").all();
    for (const { name } of tables)
      database.exec(`DELETE FROM main.${name}; INSERT INTO main.${name} SELECT * FROM saved.${name}`);
    database.exec("COMMIT; DETACH saved");
    rmSync(`${path}.load`);
    this.#standby = undefined;
  }

  close(): void {
    this.#database.close();
    this.#committed.close();
  }

  #answer(session: Session, message: Message): Result | DatabaseError | typeof waits {
    const { text } = message;
    try {
      if (text.startsWith("BEGIN")) return this.#beginTransaction(session, text);
      if (
        text === "COMMIT" &&
        session.status === "T" &&
        this.#writer === session &&
        this.#awaitsStandby(session, message)
      )
        return waits;
      if (text === "COMMIT" || text === "ROLLBACK") return this.#endTransaction(session, text);
      if (session.status === "E") return databaseError("25P02", "current transaction is aborted");
      const rows = this.#own(message);
      if (rows !== undefined) return { rows, rowCount: rows.length, command: "SELECT" };
      return this.#execute(session, message);
    } catch (error) {
      return this.#failed(session, error);
    }
  }

  #beginTransaction(session: Session, text: string): Result {
    session.status = "T";
    session.lockTimeoutMs = Number(/lock_timeout = (\d+)/.exec(text)?.[1] ?? 5_000);
    if (text.includes("REPEATABLE READ")) {
      session.snapshot = new DatabaseSync(this.path, { readOnly: true });
      session.snapshot.exec("BEGIN");
    }
    return { rows: [], rowCount: 0, command: "BEGIN" };
  }

  #endTransaction(session: Session, text: "COMMIT" | "ROLLBACK"): Result {
    const command = session.status === "E" ? "ROLLBACK" : text;
    if (this.#writer === session) {
      this.#database.exec(command);
      this.#writer = undefined;
    }
    session.snapshot?.close();
    session.snapshot = undefined;
    session.status = "I";
    session.locks.clear();
    for (const waiting of [...this.#waiting]) this.#tryAgain(waiting);
    return { rows: [], rowCount: 0, command };
  }

  /**
   * The standby is away for a while, sometimes: then commits wait. A cancelled wait leaves the commit on this server alone,
   * with a warning. Then the standby is back with everything, or takes this server's place.
   */
  #awaitsStandby(session: Session, message: Message): boolean {
    const { random, databaseFaults, nowMs } = machine();
    if (this.#standbyBackAtMs <= nowMs) {
      // It has what came before too.
      this.#standby = undefined;
      if (!session.mayFail() || !random.chance(5 * databaseFaults)) return false;
      const awayMs = random.below(20_000);
      this.#standbyBackAtMs = nowMs + awayMs;
      if (random.chance(0.7)) machine().after(awayMs, "standby takes over", () => this.restart(true));
    }
    const commit = (isReplicated: boolean) => {
      cancel();
      session.onCancel = undefined;
      session.inbox.shift();
      if (isReplicated) this.#standby = undefined;
      else if (this.#standby === undefined) {
        this.#standby = `${this.path}.standby`;
        this.save(this.#standby);
      }
      session.answer(message, this.#endTransaction(session, "COMMIT"), !isReplicated);
      this.run(session);
    };
    const cancel = machine().after(this.#standbyBackAtMs - nowMs, "standby answers", () => commit(true));
    session.onCancel = () => commit(false);
    return true;
  }

  /** Answers statements that are PostgreSQL's alone. */
  #own(message: Message): readonly Row[] | undefined {
    const { text, values } = message;
    if (text.includes("pg_is_in_recovery()")) return [{ fsync: "on", full_page_writes: "on", is_standby: false }];
    if (text.includes("set_config('enable_hashjoin'")) return [];
    if (text.includes("to_regclass('schema_migrations')")) return [{ is_there: true }];
    if (text.includes("pg_extension")) return [];
    if (text.includes("clock_timestamp()")) return [{ now_ms: machine().nowMs }];
    if (text.includes("pg_logical_emit_message")) return [{ is_read_only: "off" }];
    if (text === "SELECT") return [];
    if (text.includes("pg_cancel_backend")) {
      this.cancel(values[0] as number);
      return [];
    }
    return undefined;
  }

  #execute(session: Session, message: Message): Result | typeof waits {
    const { text } = message;
    const values = message.values.map((value, at) => decoded(text, at, value));
    const [first] = values;
    const tenants = (Array.isArray(first) ? first : [first]) as readonly string[];
    const isLocking = / FOR (UPDATE|SHARE)/.test(text);
    if (isLocking && text.includes("SKIP LOCKED")) {
      const free = tenants.filter((tenant) => !this.#isLocked(session, tenant));
      for (const tenant of free) session.locks.add(tenant);
      if (!Array.isArray(first)) return free.length === 0 ? nothing : this.#done(session, text, values);
      return this.#done(session, text, [free, ...values.slice(1)]);
    }
    if ((isLocking || text.includes("UPDATE log_heads")) && !this.#locked(session, message, tenants)) return waits;
    const isRead = /^\s*(SELECT|WITH)\b/.test(text);
    if (!isRead && !this.#mayWrite(session, message)) return waits;
    return this.#done(session, text, values);
  }

  #done(session: Session, text: string, values: readonly unknown[]): Result {
    const isWriter = this.#writer === session;
    const statement = this.#prepared(session.snapshot ?? (isWriter ? this.#database : this.#committed), text);
    const bound = values.map(toValue);
    const isRead = /^\s*(SELECT|WITH)\b|\bRETURNING\b/.test(text);
    const rows = isRead ? statement.all(...bound) : [];
    const rowCount = isRead ? rows.length : Number(statement.run(...bound).changes);
    // A statement outside of a transaction is one.
    if (isWriter && session.status === "I") this.#endTransaction(session, "COMMIT");
    return { rows, rowCount, command: "" };
  }

  #prepared(database: DatabaseSync, text: string): StatementSync {
    const statements = this.#statements.get(database) ?? new Map<string, StatementSync>();
    if (database !== this.#database && database !== this.#committed) return database.prepare(toSqlite(text));
    this.#statements.set(database, statements);
    const statement = statements.get(text) ?? database.prepare(toSqlite(text));
    statements.set(text, statement);
    return statement;
  }

  #isLocked(session: Session, row: string): boolean {
    return [...this.#sessions].some((other) => other !== session && other.locks.has(row));
  }

  /** Takes locks, or makes the session wait for them. */
  #locked(session: Session, message: Message, rows: readonly string[]): boolean {
    if (rows.some((row) => this.#isLocked(session, row))) return this.#wait(session, message, session.lockTimeoutMs);
    if (session.status === "T") for (const row of rows) session.locks.add(row);
    return true;
  }

  #mayWrite(session: Session, message: Message): boolean {
    if (this.#writer === session) return true;
    if (this.#writer !== undefined) return this.#wait(session, message, 30_000);
    this.#writer = session;
    this.#database.exec("BEGIN IMMEDIATE");
    return true;
  }

  #wait(session: Session, message: Message, timeoutMs: number): false {
    this.#waiting.add(session);
    if (session.stopWaiting !== undefined) return false;
    session.stopWaiting = machine().after(timeoutMs, "lock timeout", () =>
      this.#refuse(session, message, databaseError("55P03", "canceling statement due to lock timeout")),
    );
    return false;
  }

  #tryAgain(session: Session): void {
    if (!this.#waiting.delete(session)) return;
    session.stopWaiting?.();
    session.stopWaiting = undefined;
    this.run(session);
  }

  #refuse(session: Session, message: Message, error: DatabaseError): void {
    this.#waiting.delete(session);
    session.stopWaiting?.();
    session.stopWaiting = undefined;
    session.inbox.shift();
    session.answer(message, this.#failed(session, error));
    this.run(session);
  }

  #failed(session: Session, error: unknown): DatabaseError {
    if (session.status === "T") session.status = "E";
    if (this.#writer === session && session.status === "I") this.#endTransaction(session, "ROLLBACK");
    if (error instanceof DatabaseError) return error;
    const { errcode, message } = error as Error & { readonly errcode?: number };
    const table = /UNIQUE constraint failed: (\w+)/.exec(message)?.[1];
    const isPrimary = errcode === 1555;
    if (table !== undefined) return databaseError("23505", message, `${table}_${isPrimary ? "pkey" : "key"}`);
    if (errcode !== undefined && (errcode & 0xff) === 19) return databaseError("23514", message);
    machine().fail(error);
    return databaseError("XX000", message);
  }

  #leave(session: Session): void {
    this.#sessions.delete(session);
    this.#waiting.delete(session);
    session.stopWaiting?.();
    session.stopWaiting = undefined;
    if (session.status !== "I" || this.#writer === session) this.#endTransaction(session, "ROLLBACK");
  }
}

const nothing: Result = { rows: [], rowCount: 0, command: "SELECT" };

/**
 * Translates a statement. What SQLite reads in another way: `ON CONFLICT` behind a FROM is a join to it, and it has no
 * LATERAL, so that a bounded deletion deletes all that it may.
 */
function toSqlite(text: string): string {
  const plain = text
    .replaceAll(/\s+/g, " ")
    .replace(/(SELECT \* FROM unnest\([^)]*\)) (ON CONFLICT)/, "$1 WHERE true $2")
    .replace(
      /CROSS JOIN LATERAL \(SELECT \w+ FROM (\w+) WHERE (.*) ORDER BY .* LIMIT [\w.]+\) (\w+)/,
      (_, table: string, where: string, name: string) =>
        `JOIN ${table} ${name} ON ${where.replaceAll(`${table}.`, `${name}.`)}`,
    );
  return sqliteText(plain);
}

/** Arrays arrive in the server's binary form (`array_recv`). */
function decoded(text: string, at: number, value: unknown): unknown {
  const type = new RegExp(`\\$${at + 1}::(\\w+)\\[\\]`).exec(text)?.[1];
  if (type === undefined || !Buffer.isBuffer(value)) return value;
  const count = value.readInt32BE(0) === 0 ? 0 : value.readInt32BE(12);
  let from = 20;
  return Array.from({ length: count }, () => {
    const size = value.readInt32BE(from);
    const bytes = value.subarray(from + 4, from + 4 + Math.max(0, size));
    from += 4 + bytes.length;
    if (size < 0) return null;
    if (type === "bytea") return new Uint8Array(bytes);
    if (type === "text") return bytes.toString("utf8");
    return type === "integer" ? bytes.readInt32BE(0) : Number(bytes.readBigInt64BE(0));
  });
}
