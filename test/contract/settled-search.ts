/** What search indexes have, and how they come to have all. */
import { heads } from "../../src/stores/sql/log-rows.ts";
import type { Database } from "../../src/stores/sql/queries.ts";
import { SearchTerms, segmentsOf } from "../../src/stores/sql/search-backlog.ts";
import { addSearch, indexOf } from "../../src/stores/sql/search-segments.ts";
import { readToIndex } from "../../src/stores/sql/stored-record.ts";
import { type TermRow, unpackTerms } from "../../src/stores/sql/term-segment.ts";
import { openSqliteDatabase } from "../../src/stores/sqlite/backend.ts";

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

/** Lets the indexes have all leaves, if some wait for more, and closes the database. */
export async function settleOn(database: Database): Promise<void> {
  const settle: Parameters<typeof database.transact>[0] = async (transaction) => {
    for (const { tenantId, size } of await heads(transaction)) {
      const index = await indexOf(transaction, tenantId);
      if (index === undefined) continue;
      const range = { first: index.filledTo, end: size };
      const { records = [] } = (await readToIndex(transaction, [{ tenantId, ...range }], 2 ** 40)).get(tenantId) ?? {};
      const segments = segmentsOf(index, range, new SearchTerms().of(index, records));
      await addSearch(transaction, [{ tenantId, segments, filledTo: size }]);
    }
  };
  await database.transact(settle).finally(() => database.close());
}

/** As `settleOn`, of an embedded store. */
export const settle = (path: string) => settleOn(openSqliteDatabase({ path, anchorPath: `${path}.anchor` }));
