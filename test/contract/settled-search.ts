/** What search indexes have, and how they come to have all. */

import { openConnection } from "../../src/stores/files/connection.ts";
import { heads } from "../../src/stores/sql/log-rows.ts";
import type { Transaction } from "../../src/stores/sql/queries.ts";
import { SearchTerms, segmentsOf } from "../../src/stores/sql/search-backlog.ts";
import { readToIndex } from "../../src/stores/sql/search-fill.ts";
import { addSearch, indexOf } from "../../src/stores/sql/search-index.ts";
import { type TermRow, unpackTerms } from "../../src/stores/sql/term-segment.ts";
import { SqliteQueries, transactOn } from "../../src/stores/sqlite/queries.ts";

/** All that segments have, of all indexes of one tenant or of all, by leaf and term. */
export function indexRows(
  query: (sql: string) => readonly Record<string, unknown>[],
  tenantId?: string,
): readonly TermRow[] {
  return query("SELECT tenant_id, first_leaf, terms FROM search_segments")
    .filter((row) => tenantId === undefined || row.tenant_id === tenantId)
    .flatMap((row) => unpackTerms(Number(row.first_leaf), row.terms as Uint8Array))
    .sort((one, other) => one.leafIndex - other.leafIndex || Buffer.compare(one.term, other.term));
}

/** Lets the indexes have all leaves, where some wait for more. */
export async function settleIn(transaction: Transaction): Promise<void> {
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
