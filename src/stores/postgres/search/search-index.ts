/** The rows of `search_keys`: one index of a log serves, and another may be being built. */
import type { TenantId } from "../../../base/ids.ts";
import type { IndexGeneration, IndexMove } from "../../search-backlog.ts";
import { bigintArray, integerArray, textArray } from "../connection/arrays.ts";
import type { Queries, Row, Statement } from "../connection/connection.ts";

const columns = "generation, key, filled_to";
const servingKey: Statement = {
  name: "serving_index",
  text: `SELECT ${columns} FROM search_keys WHERE tenant_id = $1 AND serves = 1`,
};
const servingKeys: Statement = {
  name: "serving_indexes",
  text: `SELECT tenant_id, ${columns} FROM search_keys WHERE tenant_id = ANY ($1) AND serves = 1`,
};
const insertKey: Statement = {
  name: "insert_search_key",
  text: "INSERT INTO search_keys (tenant_id, generation, key, filled_to, serves) VALUES ($1, $2, $3, $4, 1)",
};
const move: Statement = {
  name: "move_search_key",
  text: "UPDATE search_keys SET filled_to = $3 WHERE tenant_id = $1 AND generation = $2",
};
const moveOfMany: Statement = {
  name: "move_search_keys",
  text: `UPDATE search_keys SET filled_to = next.filled_to
           FROM unnest($1::text[], $2::integer[], $3::bigint[]) AS next (tenant_id, generation, filled_to)
          WHERE search_keys.tenant_id = next.tenant_id AND search_keys.generation = next.generation`,
};

/** The index of a log that serves; undefined if there is none. */
export async function indexOf(queries: Queries, tenantId: TenantId): Promise<IndexGeneration | undefined> {
  const [row] = (await queries.query(servingKey, [tenantId])).rows;
  return row && toIndex(row);
}

/** As `indexOf`, by tenant: those of many on one server. */
export async function indexesOfMany(
  queries: Queries,
  tenants: readonly TenantId[],
): Promise<ReadonlyMap<TenantId, IndexGeneration>> {
  const { rows } = await queries.query(servingKeys, [textArray(tenants)]);
  return new Map(rows.map((row) => [row.tenant_id as TenantId, toIndex(row)]));
}

function toIndex({ generation, key, filled_to }: Row): IndexGeneration {
  return { generation: generation as number, key: key as Uint8Array, filledTo: filled_to as number };
}

/** Begins the index of a log that begins too. */
export async function beginIndex(
  queries: Queries,
  tenantId: TenantId,
  { generation, key, filledTo }: IndexGeneration,
): Promise<void> {
  await queries.query(insertKey, [tenantId, generation, key, filledTo]);
}

export async function moveIndex(
  queries: Queries,
  tenantId: TenantId,
  { generation, filledTo }: IndexMove,
): Promise<void> {
  await queries.query(move, [tenantId, generation, filledTo]);
}

/** As `moveIndex`, of many tenants on one server. */
export async function moveIndexesOfMany(
  queries: Queries,
  moves: readonly (IndexMove & { readonly tenantId: TenantId })[],
): Promise<void> {
  if (moves.length === 0) return;
  await queries.query(moveOfMany, [
    textArray(moves.map(({ tenantId }) => tenantId)),
    integerArray(moves.map(({ generation }) => generation)),
    bigintArray(moves.map(({ filledTo }) => filledTo)),
  ]);
}
