/** What search indexes have, and how they come to have all. */
import type { PostgresTarget } from "../../src/base/postgres-url.ts";
import { openConnection } from "../../src/stores/files/connection.ts";
import { openPostgresDatabase } from "../../src/stores/postgres/operators.ts";
import { heads } from "../../src/stores/sql/log-rows.ts";
import type { Transaction } from "../../src/stores/sql/queries.ts";
import { SearchTerms, segmentsOf } from "../../src/stores/sql/search-backlog.ts";
import { readToIndex } from "../../src/stores/sql/search-fill.ts";
import { addSearch, indexOf } from "../../src/stores/sql/search-index.ts";
import { type TermRow, unpackTerms } from "../../src/stores/sql/term-segment.ts";
import { SqliteQueries, transactOn } from "../../src/stores/sqlite/queries.ts";

type Rows = readonly Record<string, unknown>[];

/** All that segments have, of all indexes of one tenant or of all, by leaf and term. */
export async function indexRows(
  query: (sql: string) => Rows | Promise<Rows>,
  tenantId?: string,
): Promise<readonly TermRow[]> {
  return (await query("SELECT tenant_id, first_leaf, terms FROM search_segments"))
    .filter((row) => tenantId === undefined || row.tenant_id === tenantId)
    .flatMap((row) => unpackTerms(Number(row.first_leaf), row.terms as Uint8Array))
    .sort((one, other) => one.leafIndex - other.leafIndex || Buffer.compare(one.term, other.term));
}

/** Lets the indexes have all leaves, if some wait for more. */
async function settleIn(transaction: Transaction): Promise<void> {
  for (const { tenantId, size } of await heads(transaction)) {
    const index = await indexOf(transaction, tenantId);
    if (index === undefined) continue;
    const range = { first: index.filledTo, end: size };
    const { records = [] } = (await readToIndex(transaction, [{ tenantId, ...range }], 2 ** 40)).get(tenantId) ?? {};
    const segments = segmentsOf(index, range, { rows: new SearchTerms().rowsOf(index, records) });
    await addSearch(transaction, [{ tenantId, segments, move: { generation: index.generation, filledTo: size } }]);
  }
}

/** As `settleIn`, of an embedded store. */
export async function settle(path: string): Promise<void> {
  const connection = openConnection({ path, readOnly: false, busyTimeoutMs: 5_000 });
  try {
    await transactOn(connection, () => settleIn(new SqliteQueries(connection)));
  } finally {
    connection.close();
  }
}

/** As `settleIn`, of a database. */
export async function settlePostgres(target: PostgresTarget): Promise<void> {
  const database = await openPostgresDatabase({ target, anchorPath: undefined });
  try {
    await database.transact(settleIn);
  } finally {
    await database.close();
  }
}
