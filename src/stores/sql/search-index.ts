/** The rows of `search_keys`: one index of a log is in use, and another may be under construction. */
import type { TenantId } from "../../base/ids.ts";
import { onTenants, type Queries, queryRows, type TenantStatement, type Transaction, toRow } from "./queries.ts";
import type { IndexGeneration, SearchAddition } from "./search-backlog.ts";
import { addSegments } from "./search-segments.ts";
import { tables } from "./tables.ts";

const serving = onTenants(
  "serving_index",
  (isOwn) => `SELECT tenant_id, generation, key, filled_to FROM search_keys WHERE ${isOwn} AND serves = 1`,
);
const move: TenantStatement = {
  ofOne: {
    name: "move_search_key",
    text: "UPDATE search_keys SET filled_to = $3 WHERE tenant_id = $1 AND generation = $2",
  },
  ofMany: {
    name: "move_search_keys",
    text: `UPDATE search_keys SET filled_to = next.filled_to
             FROM unnest($1::text[], $2::integer[], $3::bigint[]) AS next (tenant_id, generation, filled_to)
            WHERE search_keys.tenant_id = next.tenant_id AND search_keys.generation = next.generation`,
  },
};

/** Returns the index of a log that is in use; undefined if there is none. */
export async function indexOf(queries: Queries, tenantId: TenantId): Promise<IndexGeneration | undefined> {
  return (await indexesOf(queries, [tenantId])).get(tenantId);
}

/** Returns the indexes that are in use, by tenant. */
export async function indexesOf(
  queries: Queries,
  tenants: readonly TenantId[],
): Promise<ReadonlyMap<TenantId, IndexGeneration>> {
  const { rows } = await queryRows(queries, serving, tenants.map(toRow));
  return new Map(
    rows.map(({ tenant_id, generation, key, filled_to }) => [
      tenant_id as TenantId,
      { generation: generation as number, key: key as Uint8Array, filledTo: filled_to as number },
    ]),
  );
}

/** Begins the index of a new log. */
export function beginIndex(
  transaction: Transaction,
  tenantId: TenantId,
  { generation, key, filledTo }: IndexGeneration,
): Promise<void> {
  return transaction.insert(tables.searchKeys, [[tenantId, generation, key, filledTo, 1]]);
}

/** What an append adds to the index of a log. */
interface OwnAddition extends Pick<SearchAddition, "segments" | "move"> {
  readonly tenantId: TenantId;
}

/** Writes what appends add to the indexes of logs, under the locks of their heads. */
export async function addSearch(transaction: Transaction, additions: readonly OwnAddition[]): Promise<void> {
  const moves = additions.flatMap(({ tenantId, move }) =>
    move === undefined ? [] : [[tenantId, move.generation, move.filledTo] as const],
  );
  if (moves.length === 0) return;
  await Promise.all([
    addSegments(
      transaction,
      additions.flatMap(({ tenantId, segments }) => segments.map((segment) => ({ tenantId, ...segment }))),
    ),
    transaction.each(move, moves),
  ]);
}
