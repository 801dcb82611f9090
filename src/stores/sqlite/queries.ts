/**
 * Runs the statements of `sql/` on an SQLite connection. Each statement ends before its promise is returned, so an
 * `await` resumes before any other event in the thread, and no other work runs between the statements of a transaction.
 */
import { readStoreId, type SqliteConnection, type SqliteStatement } from "../files/connection.ts";
import type { Answer, Queries, TenantRow, TenantStatement, Transaction, Value } from "../sql/queries.ts";
import { storeReader } from "../sql/reader.ts";
import type { Table } from "../sql/schema.ts";
import { notedRegistrations } from "./noted-erasures.ts";

interface Prepared {
  readonly statement: SqliteStatement;
  readonly hasRows: boolean;
}

/** A connection that joins the transaction under way on it. */
export class SqliteQueries implements Transaction {
  readonly connection: SqliteConnection;
  /** By text, or by table for its insertion. */
  readonly #prepared = new Map<string | Table, Prepared>();

  constructor(connection: SqliteConnection) {
    this.connection = connection;
  }

  query(text: string, values: readonly unknown[]): Promise<Answer> {
    return settled(() => {
      const { statement, hasRows } = this.#prepared.get(text) ?? this.#prepare(text, text);
      const bound = values.map(toValue);
      if (!hasRows) return { rows: [], count: Number(statement.run(...bound).changes) };
      const rows = [...statement.iterate(...bound)];
      return { rows, count: rows.length };
    });
  }

  insert(table: Table, rows: readonly (readonly Value[])[]): Promise<void> {
    if (rows.length === 0) return done;
    return settled(() => {
      const { statement } = this.#prepared.get(table) ?? this.#prepare(table, insertionInto(table));
      for (const row of rows) statement.run(...row);
    });
  }

  async each({ ofOne }: TenantStatement, rows: readonly TenantRow[]): Promise<number> {
    let changed = 0;
    for (const row of rows) changed += (await this.query(ofOne, row)).count;
    return changed;
  }

  #prepare(what: string | Table, text: string): Prepared {
    const statement = this.connection.prepare(sqliteText(text));
    const prepared = { statement, hasRows: /^\s*(SELECT|WITH|PRAGMA)\b|\bRETURNING\b/.test(text) };
    this.#prepared.set(what, prepared);
    return prepared;
  }
}

const done = Promise.resolve();

/** Cheaper than an async function. */
function settled<Result>(work: () => Result): Promise<Result> {
  try {
    return Promise.resolve(work());
  } catch (error) {
    return Promise.reject(error);
  }
}

let last: Promise<unknown> = Promise.resolve();

/** Waits for the thread's previous transaction, which could not end while another waits for its lock. */
export function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
  const result = last.then(work);
  last = result.catch(() => {});
  return result;
}

/**
 * Runs the work in one transaction. IMMEDIATE takes the write lock before the first read, so that what was read cannot
 * have changed at the commit. When it rejects, the outcome of the commit is unknown.
 */
export function transactOn<Result>(
  connection: SqliteConnection,
  work: () => Result | Promise<Result>,
): Promise<Result> {
  return inTurn(async () => {
    connection.exec("BEGIN IMMEDIATE");
    try {
      const result = await work();
      connection.exec("COMMIT");
      return result;
    } catch (error) {
      // Some failures have rolled back by themselves.
      if (connection.isTransaction) connection.exec("ROLLBACK");
      throw error;
    }
  });
}

/** Reads records, on a connection that hides erased records (`hideErased`), which it closes. */
export function sqliteReader(connection: SqliteConnection) {
  const queries = new SqliteQueries(connection);
  const snapshot = async <Result>(work: (queries: Queries) => Promise<Result>) => {
    connection.exec("BEGIN");
    try {
      return await work(queries);
    } finally {
      if (connection.isTransaction) connection.exec("COMMIT");
    }
  };
  return {
    ...storeReader({ query: queries.query.bind(queries), snapshot }, notedRegistrations),
    /** Rejects when the file cannot be read. */
    probe: async () => void readStoreId(connection),
    close: () => connection.close(),
  };
}

export type SqliteReader = ReturnType<typeof sqliteReader>;

function insertionInto({ name, columns, onConflict = "" }: Table): string {
  const names = Object.keys(columns);
  return `INSERT INTO ${name} (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")}) ${onConflict}`;
}

/** SQLite has neither booleans nor arrays. An array becomes JSON, its bytes hexadecimal. */
export function toValue(value: unknown): Value {
  if (typeof value === "boolean") return value ? 1 : 0;
  if (!Array.isArray(value)) return value as Value;
  return JSON.stringify(value.map((one) => (one instanceof Uint8Array ? Buffer.from(one).toString("hex") : one)));
}

/** Translates a statement from PostgreSQL's dialect to SQLite's. */
export function sqliteText(text: string): string {
  return (
    text
      // In the file itself, if the connection hides rows.
      .replaceAll("/*main.*/", "main.")
      // Without statistics, the planner would read all rows of the tenant to find those that are asked for.
      .replaceAll(/( AS asked \([^)]*\)\s+)JOIN/g, "$1CROSS JOIN")
      // One connection writes at a time.
      .replaceAll(/ FOR (UPDATE|SHARE)( SKIP LOCKED)?/g, "")
      .replaceAll(
        /unnest\(([^)]*)\)(?: AS (\w+) \(([^)]*)\))?/g,
        (_, arrays: string, name?: string, columns?: string) =>
          tableOfArrays(arrays.split(", "), name, columns?.split(", ") ?? []),
      )
      .replaceAll(
        /= ANY \((\$\d+)(?:::(\w+)\[\])?\)/g,
        (_, array: string, type?: string) => `IN (SELECT ${elementOf(type, "value")} FROM json_each(${array}))`,
      )
      .replaceAll(/position\(([^ ]+) IN (\w+)\)/g, "instr($2, $1)")
      .replaceAll(/::\w+(\[\])?/g, "")
      .replaceAll(/\$(\d+)/g, "?$1")
  );
}

/** Arrays of the same length, as columns of a table. */
function tableOfArrays(arrays: readonly string[], name: string | undefined, columns: readonly string[]): string {
  const parts = arrays.map((array) => /^(\$\d+)(?:::(\w+)\[\])?$/.exec(array) ?? ["", array]);
  const [first] = parts;
  const selected = parts.map(([, parameter, type], at) => {
    const element = elementOf(type, at === 0 ? "value" : `${parameter} ->> key`);
    return columns[at] === undefined ? element : `${element} AS ${columns[at]}`;
  });
  const table = `SELECT ${selected.join(", ")} FROM json_each(${first?.[1]})`;
  return name === undefined && columns.length === 0 ? `(${table})` : `(${table}) AS ${name}`;
}

const elementOf = (type: string | undefined, element: string) => (type === "bytea" ? `unhex(${element})` : element);
