/** Writes the search index of a log, in the transactions that append to it. */
import type { TenantId } from "../../../base/ids.ts";
import { blockOf, StoredTerms, termsOfEdition } from "../../../ledger/search/search-index.ts";
import type { IndexedRecord } from "../../../ledger/search/search-terms.ts";
import { bigintArray, byteaArray, integerArray, textArray } from "../connection/arrays.ts";
import type { Queries, Row, Statement } from "../connection/connection.ts";

/** One time that an index was, or is being, built. */
export interface IndexGeneration {
  readonly generation: number;
  readonly key: Uint8Array;
  /** Says which fields it has. */
  readonly edition: number;
}

const keysOf: Statement = {
  name: "search_keys",
  text: "SELECT generation, key, fields FROM search_keys WHERE tenant_id = $1 ORDER BY generation",
};
const insertKey: Statement = {
  name: "insert_search_key",
  text: "INSERT INTO search_keys (tenant_id, generation, key, filled_to, fill_end, fields) VALUES ($1, $2, $3, 0, 0, $4)",
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
  text: "SELECT tenant_id, generation, key, fields FROM search_keys WHERE tenant_id = ANY ($1) ORDER BY generation",
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

function toIndex({ generation, key, fields }: Row): IndexGeneration {
  return { generation: generation as number, key: key as Uint8Array, edition: fields as number };
}

/** Begins the index of a log that begins too: it is whole. */
export async function beginIndex(
  queries: Queries,
  tenantId: TenantId,
  { generation, key, edition }: IndexGeneration,
): Promise<void> {
  await queries.query(insertKey, [tenantId, generation, key, edition]);
}

/** A row of an index. */
export interface TermRow {
  readonly generation: number;
  readonly term: Uint8Array;
  readonly leafIndex: number;
}

/** Makes the rows of indexes. */
export class SearchTerms {
  readonly #terms = new StoredTerms();

  /** Rows of records of a log in indexes of it. */
  rowsOf(indexes: readonly IndexGeneration[], records: readonly IndexedRecord[]): readonly TermRow[] {
    const made = indexes.map((index) => ({ ...index, stored: this.#terms.under(index.key) }));
    return records.flatMap(({ leafIndex, terms }) =>
      made.flatMap(({ generation, edition, stored }) =>
        termsOfEdition(edition, terms).map((term) => ({ generation, term: stored(term), leafIndex })),
      ),
    );
  }
}

/** Adds rows to indexes of a log. */
export async function addTerms(queries: Queries, tenantId: TenantId, rows: readonly TermRow[]): Promise<void> {
  if (rows.length > 0) await queries.query(insertTerms, [tenantId, ...columnsOf(rows)]);
}

/** As `addTerms`, of many tenants on one server. */
export async function addTermsOfMany(
  queries: Queries,
  rows: readonly (TermRow & { readonly tenantId: TenantId })[],
): Promise<void> {
  if (rows.length === 0) return;
  await queries.query(insertTermsOfMany, [textArray(rows.map(({ tenantId }) => tenantId)), ...columnsOf(rows)]);
}

function columnsOf(rows: readonly TermRow[]): readonly Buffer[] {
  return [
    bigintArray(rows.map(({ leafIndex }) => blockOf(leafIndex))),
    integerArray(rows.map(({ generation }) => generation)),
    byteaArray(rows.map(({ term }) => term)),
    bigintArray(rows.map(({ leafIndex }) => leafIndex)),
  ];
}
