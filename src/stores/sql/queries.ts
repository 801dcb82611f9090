/**
 * Interface of a driver to the statements of this folder. They are written once, in the dialect of PostgreSQL; the
 * driver of another database translates them (`sqlite/queries.ts`).
 */
import type { Table } from "./tables.ts";

export type Row = Record<string, unknown>;
export type Value = null | number | string | Uint8Array;

/** A prepared statement. Its name stands for this text alone. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

export interface Answer {
  readonly rows: readonly Row[];
  readonly count: number;
}

/** Reads. All reject with an error of the driver. */
export interface Queries {
  /** @param values `Value`s, booleans, and arrays of one kind of `Value` for `= ANY` and `unnest` */
  query(statement: Statement, values: readonly unknown[]): Promise<Answer>;
}

/** A connection in a transaction. Statements are answered in the order of their calls. */
export interface Transaction extends Queries {
  /** Inserts rows, with values in the order of the columns. The table decides about existing rows. */
  insert(table: Table, rows: readonly (readonly Value[])[]): Promise<void>;
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
