/**
 * Interface of a driver to the statements of this folder. They are written once, in the dialect of PostgreSQL; the
 * driver of another database translates them (`sqlite/queries.ts`).
 */
import type { TenantId } from "../../base/ids.ts";
import type { ColumnType, Table } from "./schema.ts";

export type Row = Record<string, unknown>;
export type Value = null | number | string | Uint8Array;

export interface Answer {
  readonly rows: readonly Row[];
  readonly count: number;
}

/** Reads. All reject with an error of the driver. */
export interface Queries {
  /**
   * Runs a statement, which each connection prepares once.
   * @param values `Value`s, booleans, and arrays of one kind of `Value`, whose type the text names: `$2::bytea[]`
   */
  query(statement: string, values: readonly unknown[]): Promise<Answer>;
}

/** A connection in a transaction. Statements are answered in the order of their calls. */
export interface Transaction extends Queries {
  /** Inserts rows, with values in the order of the columns. The table decides about existing rows. */
  insert(table: Table, rows: readonly (readonly Value[])[]): Promise<void>;
  /** Runs a statement on one row of values for each tenant. Resolves with the number of changed rows. */
  each(statement: TenantStatement, rows: readonly TenantRow[]): Promise<number>;
}

/** A database, for work that commits. */
export interface Database extends Queries {
  /**
   * Runs work in one transaction, durable when it resolves. Repeats work that did not cause its failure. Rejects as the
   * work does, or with an error of the driver.
   * @param tenantId tenant of the work, if there is one
   */
  transact<Result>(work: (transaction: Transaction) => Promise<Result>, tenantId?: string): Promise<Result>;
  /** Converts a thrown error to that of the store's port. */
  toError(error: unknown): unknown;
  close(): Promise<void>;
}

/** Runs work, with the errors of the store's port. */
export async function translated<Result>(
  { toError }: Pick<Database, "toError">,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw toError(error);
  }
}

/** Runs every method of an object through a function, such as one that translates errors. */
export function throughAll<Methods extends object>(
  methods: Methods,
  through: (work: () => Promise<unknown>) => Promise<unknown>,
): Methods {
  const all = Object.entries(methods).map(([name, method]) => {
    return [name, (...args: unknown[]) => through(async () => method(...args))];
  });
  return Object.fromEntries(all) as Methods;
}

/** A statement on rows of one tenant, which a cluster runs on the tenant's node, and the same on rows of many. */
export interface TenantStatement {
  readonly ofOne: string;
  /** For one server. */
  readonly ofMany: string;
}

/** Makes a statement on all rows of tenants in a table. */
export function onTenants(text: (isOwn: string) => string): TenantStatement {
  return { ofOne: text("tenant_id = $1"), ofMany: text("tenant_id = ANY ($1::text[])") };
}

/**
 * Makes a statement on the rows `asked`.
 * @param columns of `asked`, beside the tenant
 * @param text of the statement, given the table `asked` and the tenant of its rows
 */
export function onRows(
  columns: Readonly<Record<string, ColumnType>>,
  text: (asked: string, tenant: string) => string,
): TenantStatement {
  const names = Object.keys(columns);
  const arrays = Object.values(columns).map((type, at) => `$${at + 2}::${type}[]`);
  const many = [["$1::text[]", ...arrays].join(", "), ["tenant_id", ...names].join(", ")];
  return {
    ofOne: text(`unnest(${arrays.join(", ")}) AS asked (${names.join(", ")})`, "$1"),
    ofMany: text(`unnest(${many[0]}) AS asked (${many[1]})`, "asked.tenant_id"),
  };
}

/** A row of values, the tenant first. */
export type TenantRow = readonly [TenantId, ...Value[]];

export const toRow = (tenantId: TenantId): TenantRow => [tenantId];

/**
 * Runs a statement with one array for each column of rows; the form for one tenant gets the tenant alone.
 * @param further parameters behind the columns
 */
export function queryRows(
  queries: Queries,
  { ofOne, ofMany }: TenantStatement,
  rows: readonly TenantRow[],
  ...further: readonly unknown[]
): Promise<Answer> {
  const [tenants = [], ...columns] = columnsOf(rows);
  const [first] = tenants;
  return tenants.every((tenantId) => tenantId === first)
    ? queries.query(ofOne, [first, ...columns, ...further])
    : queries.query(ofMany, [tenants, ...columns, ...further]);
}

/** Turns rows into columns. */
export function columnsOf(rows: readonly (readonly Value[])[]): readonly (readonly Value[])[] {
  return Array.from({ length: rows[0]?.length ?? 0 }, (_, at) => rows.map((row) => row[at] as Value));
}
