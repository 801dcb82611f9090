/** What the search indexes of a database have, and how they come to have all. */
import { Client } from "pg";
import type { PostgresTarget } from "../../src/base/postgres-url.ts";
import { clientOptions } from "../../src/stores/postgres/connection/client-options.ts";
import { queriesOf } from "../../src/stores/postgres/connection/connection.ts";
import { type TermRow, unpackTerms } from "../../src/stores/sql/term-segment.ts";
import { settleIn } from "./settled-search.ts";

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
  try {
    await client.query("BEGIN");
    await settleIn(queriesOf(client));
    await client.query("COMMIT");
  } finally {
    await client.end();
  }
}
