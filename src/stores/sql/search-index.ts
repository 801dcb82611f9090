/** The rows of `search_keys`: one index of a log is in use, and another may be under construction. */
import type { TenantId } from "../../base/ids.ts";
import type { Queries, Row, Statement, Transaction } from "./queries.ts";
import type { IndexGeneration, IndexMove, SearchAddition } from "./search-backlog.ts";
import { addSegments } from "./search-segments.ts";
import { tables } from "./tables.ts";

export const indexColumns = "generation, key, filled_to";
const servingKey: Statement = {
  name: "serving_index",
  text: `SELECT ${indexColumns} FROM search_keys WHERE tenant_id = $1 AND serves = 1`,
};
const move: Statement = {
  name: "move_search_key",
  text: "UPDATE search_keys SET filled_to = $3 WHERE tenant_id = $1 AND generation = $2",
};
/** Returns the index of a log that is in use; undefined if there is none. */
export async function indexOf(queries: Queries, tenantId: TenantId): Promise<IndexGeneration | undefined> {
  const [row] = (await queries.query(servingKey, [tenantId])).rows;
  return row && toIndex(row);
}

export function toIndex({ generation, key, filled_to }: Row): IndexGeneration {
  return { generation: generation as number, key: key as Uint8Array, filledTo: filled_to as number };
}

/** Begins the index of a new log. */
export function beginIndex(
  transaction: Transaction,
  tenantId: TenantId,
  { generation, key, filledTo }: IndexGeneration,
): Promise<void> {
  return transaction.insert(tables.searchKeys, [[tenantId, generation, key, filledTo, 1]]);
}

export async function moveIndex(
  queries: Queries,
  tenantId: TenantId,
  { generation, filledTo }: IndexMove,
): Promise<void> {
  await queries.query(move, [tenantId, generation, filledTo]);
}

/** Writes what an append adds to the index of a log. */
export async function addSearch(
  transaction: Transaction,
  tenantId: TenantId,
  { segments, move }: SearchAddition,
): Promise<void> {
  if (move === undefined) return;
  await Promise.all([
    addSegments(
      transaction,
      segments.map((segment) => ({ tenantId, ...segment })),
    ),
    moveIndex(transaction, tenantId, move),
  ]);
}
