/** What the search indexes of a database have, and how they come to have all. */
import { Client } from "pg";
import type { PostgresTarget } from "../../src/base/postgres-url.ts";
import { clientOptions } from "../../src/stores/postgres/connection/client-options.ts";
import { queriesOf } from "../../src/stores/postgres/connection/connection.ts";
import { heads } from "../../src/stores/postgres/log/log-rows.ts";
import { readToIndex } from "../../src/stores/postgres/search/search-fill.ts";
import { indexOf, moveIndex } from "../../src/stores/postgres/search/search-index.ts";
import { addSegmentsTo } from "../../src/stores/postgres/search/search-segments.ts";
import { SearchTerms, segmentsOf } from "../../src/stores/search-backlog.ts";
import { type TermRow, unpackTerms } from "../../src/stores/term-segment.ts";

type Query = (sql: string) => Promise<Record<string, unknown>[]>;

/** All that segments of a tenant have, of all indexes, by leaf and term. */
export async function indexRows(query: Query, tenantId: string): Promise<readonly TermRow[]> {
  const segments = await query(`SELECT first_leaf, terms FROM search_segments WHERE tenant_id = '${tenantId}'`);
  return segments
    .flatMap(({ first_leaf, terms }) => unpackTerms(Number(first_leaf), terms as Uint8Array))
    .sort((one, other) => one.leafIndex - other.leafIndex || Buffer.compare(one.term, other.term));
}

/** Lets the indexes have all leaves, where some wait for more. */
export async function settlePostgres(target: PostgresTarget): Promise<void> {
  const client = new Client(clientOptions({ target }, 0));
  await client.connect();
  const queries = queriesOf(client);
  try {
    await client.query("BEGIN");
    for (const { tenantId, size } of await heads(queries)) {
      const index = await indexOf(queries, tenantId);
      if (index === undefined) continue;
      const range = { first: index.filledTo, end: size };
      const { records } = await readToIndex(queries, tenantId, range, 2 ** 40);
      const rows = new SearchTerms().rowsOf(index, records);
      await addSegmentsTo(queries, tenantId, segmentsOf(index, range, { rows }));
      await moveIndex(queries, tenantId, { generation: index.generation, filledTo: size });
    }
    await client.query("COMMIT");
  } finally {
    await client.end();
  }
}
