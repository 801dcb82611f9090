/** What the search indexes of a database have, and how they come to have all. */
import { Client } from "pg";
import type { PostgresTarget } from "../../src/base/postgres-url.ts";
import { clientOptions } from "../../src/stores/postgres/connection/client-options.ts";
import { queriesOf } from "../../src/stores/postgres/connection/connection.ts";
import { heads } from "../../src/stores/postgres/log/log-rows.ts";
import { readToIndex } from "../../src/stores/postgres/search/search-fill.ts";
import { addTerms, indexesOf, openEnd, SearchTerms } from "../../src/stores/postgres/search/search-index.ts";
import { rowsInSegments } from "../../src/stores/postgres/search/search-segments.ts";
import { type TermRow, unpackTerms } from "../../src/stores/term-segment.ts";

type Query = (sql: string) => Promise<Record<string, unknown>[]>;

/** All rows and all segments of a tenant, of all indexes, by leaf and term. */
export async function indexRows(query: Query, tenantId: string): Promise<readonly TermRow[]> {
  const rows = (await query(`SELECT leaf_index, term FROM search_terms WHERE tenant_id = '${tenantId}'`)).map(
    ({ leaf_index, term }) => ({ leafIndex: Number(leaf_index), term: term as Uint8Array }),
  );
  const segments = await query(`SELECT first_leaf, terms FROM search_segments WHERE tenant_id = '${tenantId}'`);
  return [
    ...rows,
    ...segments.flatMap(({ first_leaf, terms }) => unpackTerms(Number(first_leaf), terms as Uint8Array)),
  ].sort((one, other) => one.leafIndex - other.leafIndex || Buffer.compare(one.term, other.term));
}

/** Lets the indexes have all leaves, as rows. */
export async function settlePostgres(target: PostgresTarget): Promise<void> {
  const client = new Client(clientOptions({ target }, 0));
  await client.connect();
  const queries = queriesOf(client);
  try {
    await client.query("BEGIN");
    for (const { tenantId, size } of await heads(queries))
      for (const index of await indexesOf(queries, tenantId)) {
        const { generation, filledTo, fillEnd } = index;
        if (fillEnd !== openEnd) continue;
        const known = await rowsInSegments(queries, tenantId, { first: 0, end: size, generation });
        const { records } = await readToIndex(queries, tenantId, { first: filledTo, end: size }, 2 ** 40);
        const waiting = new SearchTerms().rowsOf([index], records);
        await addTerms(queries, tenantId, [...known.map((row) => ({ generation, ...row })), ...waiting]);
        const key = [tenantId, generation];
        await client.query("DELETE FROM search_segments WHERE tenant_id = $1 AND generation = $2", key);
        await client.query(
          "UPDATE search_keys SET filled_to = $3, fill_end = $3 WHERE tenant_id = $1 AND generation = $2",
          [...key, size],
        );
      }
    await client.query("COMMIT");
  } finally {
    await client.end();
  }
}
