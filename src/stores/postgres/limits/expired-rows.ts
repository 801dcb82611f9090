/** Removes what nobody needs any more, a few rows with each write, so that no write has to remove them all. */
import type { Queries, Statement } from "../connection/session.ts";

/** A table whose rows may go one day. */
export interface Expiring {
  readonly table: string;
  /** The column that follows the tenant in the primary key. */
  readonly key: string;
  /** Column with the milliseconds since the Unix epoch from which on a row may go; indexed behind the tenant. */
  readonly expiry: string;
}

/** Rows that one write removes besides: more than it adds, so that a table shrinks while it is written to. */
const removedPerRow = 2;
const removedAtLeast = 16;

/**
 * To be called in the transaction that writes so many rows of the tenant. Rows that another transaction holds are left
 * to it: nobody waits for this.
 */
export async function removeExpired(
  queries: Queries,
  { table, key, expiry }: Expiring,
  tenantId: string,
  nowMs: number,
  rowsWritten: number,
): Promise<void> {
  const statement: Statement = {
    name: `expire_${table}`,
    text: `DELETE FROM ${table} WHERE tenant_id = $1 AND ${key} IN
             (SELECT ${key} FROM ${table} WHERE tenant_id = $1 AND ${expiry} <= $2
               ORDER BY ${expiry} LIMIT $3 FOR UPDATE SKIP LOCKED)`,
  };
  await queries.query(statement, [tenantId, nowMs, removedAtLeast + removedPerRow * rowsWritten]);
}
