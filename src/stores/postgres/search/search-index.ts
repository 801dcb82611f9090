/** Writes the search index of a log, in the transactions that append to it. */
import type { TenantId } from "../../../base/ids.ts";
import { blockOf, StoredTerms, termsOfEdition } from "../../../ledger/search/search-index.ts";
import type { IndexedRecord } from "../../../ledger/search/search-terms.ts";
import type { Queries, Statement } from "../connection/connection.ts";

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

/** Indexes of a log: the one that serves, and any that is being built. None where there is no index. */
export async function indexesOf(queries: Queries, tenantId: TenantId): Promise<readonly IndexGeneration[]> {
  const { rows } = await queries.query(keysOf, [tenantId]);
  return rows.map(({ generation, key, fields }) => ({
    generation: generation as number,
    key: key as Uint8Array,
    edition: fields as number,
  }));
}

/** Begins the index of a log that begins too: it is whole. */
export async function beginIndex(
  queries: Queries,
  tenantId: TenantId,
  { generation, key, edition }: IndexGeneration,
): Promise<void> {
  await queries.query(insertKey, [tenantId, generation, key, edition]);
}

export class SearchWriter {
  readonly #terms = new StoredTerms();

  /** Adds records of a log to indexes of it. */
  async add(
    queries: Queries,
    tenantId: TenantId,
    indexes: readonly IndexGeneration[],
    records: readonly IndexedRecord[],
  ): Promise<void> {
    const rows = records.flatMap(({ leafIndex, terms }) =>
      indexes.flatMap(({ generation, key, edition }) =>
        termsOfEdition(edition, terms).map((term) => ({ generation, term: this.#terms.of(key, term), leafIndex })),
      ),
    );
    if (rows.length === 0) return;
    await queries.query(insertTerms, [
      tenantId,
      rows.map(({ leafIndex }) => blockOf(leafIndex)),
      rows.map(({ generation }) => generation),
      rows.map(({ term }) => term),
      rows.map(({ leafIndex }) => leafIndex),
    ]);
  }
}
