/** Writes the search index of a log, in the transactions that append to it. */
import type { TenantId } from "../../../base/ids.ts";
import { blockOf, type LeafRange, StoredTerms, termsOfEdition } from "../../../ledger/search/search-index.ts";
import type { IndexedRecord } from "../../../ledger/search/search-terms.ts";
import type { TermRow } from "../../term-segment.ts";
import { bigintArray, byteaArray, integerArray, textArray } from "../connection/arrays.ts";
import type { Queries, Row, Statement } from "../connection/connection.ts";

/** One time that an index was, or is being, built. */
export interface IndexGeneration {
  readonly generation: number;
  readonly key: Uint8Array;
  /** Says which fields it has. */
  readonly edition: number;
  /** Leaves from here up to and without `fillEnd` need not be in it yet; all others are. */
  readonly filledTo: number;
  readonly fillEnd: number;
}

/**
 * Where those leaves end in an index for which the newest leaves of a log wait, however many there are. The version before
 * takes such an index for one that is not whole, and looks at every record.
 */
export const openEnd = Number.MAX_SAFE_INTEGER;

/** SQL condition on `search_keys`: all leaves are in the index, or wait for it. */
export const servesSql = `(filled_to = fill_end OR fill_end = ${openEnd})`;

/** The leaves of a log of this size that wait for an index that serves. */
export function waitingOf(
  { filledTo, fillEnd }: Pick<IndexGeneration, "filledTo" | "fillEnd">,
  size: number,
): LeafRange {
  return fillEnd === openEnd ? { first: filledTo, end: size } : { first: size, end: size };
}

const columns = "generation, key, fields, filled_to, fill_end";
const keysOf: Statement = {
  name: "search_keys",
  text: `SELECT ${columns} FROM search_keys WHERE tenant_id = $1 ORDER BY generation`,
};
const insertKey: Statement = {
  name: "insert_search_key",
  text: "INSERT INTO search_keys (tenant_id, generation, key, filled_to, fill_end, fields) VALUES ($1, $2, $3, $4, $5, $6)",
};
const move: Statement = {
  name: "move_search_key",
  text: `UPDATE search_keys SET filled_to = $3, fill_end = ${openEnd} WHERE tenant_id = $1 AND generation = $2`,
};
const moveOfMany: Statement = {
  name: "move_search_keys",
  text: `UPDATE search_keys SET filled_to = next.filled_to, fill_end = ${openEnd}
           FROM unnest($1::text[], $2::integer[], $3::bigint[]) AS next (tenant_id, generation, filled_to)
          WHERE search_keys.tenant_id = next.tenant_id AND search_keys.generation = next.generation`,
};
const insertTerms: Statement = {
  name: "insert_search_terms",
  text: `INSERT INTO search_terms (tenant_id, block, generation, term, leaf_index)
         SELECT head.tenant_id, row.*
           FROM log_heads head, unnest($2::bigint[], $3::integer[], $4::bytea[], $5::bigint[]) AS row
          WHERE head.tenant_id = $1
         ON CONFLICT DO NOTHING`,
};

const keysOfMany: Statement = {
  name: "search_keys_of_many",
  text: `SELECT tenant_id, ${columns} FROM search_keys WHERE tenant_id = ANY ($1) ORDER BY generation`,
};
const insertTermsOfMany: Statement = {
  name: "insert_search_terms_of_many",
  text: `INSERT INTO search_terms (tenant_id, block, generation, term, leaf_index)
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::integer[], $4::bytea[], $5::bigint[])
         ON CONFLICT DO NOTHING`,
};

/** Indexes of a log: the one that serves, and any that is being built. None where there is no index. */
export async function indexesOf(queries: Queries, tenantId: TenantId): Promise<readonly IndexGeneration[]> {
  return (await queries.query(keysOf, [tenantId])).rows.map(toIndex);
}

/** As `indexesOf`, by tenant: those of many on one server. */
export async function indexesOfMany(
  queries: Queries,
  tenants: readonly TenantId[],
): Promise<ReadonlyMap<TenantId, readonly IndexGeneration[]>> {
  const { rows } = await queries.query(keysOfMany, [textArray(tenants)]);
  const byTenant = Map.groupBy(rows, ({ tenant_id }) => tenant_id as TenantId);
  return new Map([...byTenant].map(([tenantId, own]) => [tenantId, own.map(toIndex)]));
}

/** From the columns of `search_keys`. */
export function toIndex({ generation, key, fields, filled_to, fill_end }: Row): IndexGeneration {
  return {
    generation: generation as number,
    key: key as Uint8Array,
    edition: fields as number,
    filledTo: filled_to as number,
    fillEnd: fill_end as number,
  };
}

/** Begins the index of a log that begins too. */
export async function beginIndex(
  queries: Queries,
  tenantId: TenantId,
  { generation, key, edition, filledTo, fillEnd }: IndexGeneration,
): Promise<void> {
  await queries.query(insertKey, [tenantId, generation, key, filledTo, fillEnd, edition]);
}

/** How far an index is filled now. From then on leaves may wait for it. */
export interface IndexMove {
  readonly generation: number;
  readonly filledTo: number;
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

/** A row of an index. */
export interface IndexRow extends TermRow {
  readonly generation: number;
}

/** Makes the rows of indexes. */
export class SearchTerms {
  readonly #terms = new StoredTerms();

  /** Rows of records of a log in indexes of it. */
  rowsOf(
    indexes: readonly Pick<IndexGeneration, "generation" | "key" | "edition">[],
    records: readonly IndexedRecord[],
  ): readonly IndexRow[] {
    const made = indexes.map((index) => ({ ...index, stored: this.#terms.under(index.key) }));
    return records.flatMap(({ leafIndex, terms }) =>
      made.flatMap(({ generation, edition, stored }) =>
        termsOfEdition(edition, terms).map((term) => ({ generation, term: stored(term), leafIndex })),
      ),
    );
  }
}

/** Adds rows to indexes of a log. */
export async function addTerms(queries: Queries, tenantId: TenantId, rows: readonly IndexRow[]): Promise<void> {
  if (rows.length > 0) await queries.query(insertTerms, [tenantId, ...columnsOf(rows)]);
}

/** As `addTerms`, of many tenants on one server. */
export async function addTermsOfMany(
  queries: Queries,
  rows: readonly (IndexRow & { readonly tenantId: TenantId })[],
): Promise<void> {
  if (rows.length === 0) return;
  await queries.query(insertTermsOfMany, [textArray(rows.map(({ tenantId }) => tenantId)), ...columnsOf(rows)]);
}

function columnsOf(rows: readonly IndexRow[]): readonly Buffer[] {
  return [
    bigintArray(rows.map(({ leafIndex }) => blockOf(leafIndex))),
    integerArray(rows.map(({ generation }) => generation)),
    byteaArray(rows.map(({ term }) => term)),
    bigintArray(rows.map(({ leafIndex }) => leafIndex)),
  ];
}
