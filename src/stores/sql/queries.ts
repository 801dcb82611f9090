/**
 * What a driver gives to the statements of this folder. They are written once, in the words of PostgreSQL; the driver of
 * another database says them in its own (`sqlite/queries.ts`).
 */
import type { Table } from "./tables.ts";

export type Row = Record<string, unknown>;
export type Value = null | number | string | Uint8Array;

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

/** Anything that reads. All reject with an error of the driver. */
export interface Queries {
  /** @param values `Value`s, booleans, and arrays of one kind of `Value`, which stand as `= ANY` and `unnest` say */
  query(statement: Statement, values: readonly unknown[]): Promise<Answer>;
}

/** A connection in a transaction. Statements are answered in the order in which they are given. */
export interface Transaction extends Queries {
  /** Inserts rows, each with its values in the order of the table's columns, and as the table says where they are there. */
  insert(table: Table, rows: readonly (readonly Value[])[]): Promise<void>;
}

/** A database, for work that commits. */
export interface Database extends Queries {
  /**
   * Runs work in one transaction, durable when it resolves, and again where it failed for no fault of its own. Rejects as
   * the work does, or with an error of the driver.
   * @param tenantId whose work it is, where it is one's
   */
  transact<Result>(work: (transaction: Transaction) => Promise<Result>, tenantId?: string): Promise<Result>;
  /** What a caller of the store gets for anything that was thrown. */
  toError(error: unknown): unknown;
  close(): Promise<void>;
}

/** Does work whose rejections are as callers of the store know them. */
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
