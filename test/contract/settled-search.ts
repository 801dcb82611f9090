/** What the search indexes of an embedded store have, and how they come to have all. */

import { SearchTerms, segmentsOf } from "../../src/stores/search-backlog.ts";
import { inTransaction, openConnection } from "../../src/stores/sqlite/connection.ts";
import { LogRows } from "../../src/stores/sqlite/log/log-rows.ts";
import { RecordsToIndex, SearchIndex } from "../../src/stores/sqlite/search/search-index.ts";
import { SearchSegments } from "../../src/stores/sqlite/search/search-segments.ts";
import { type TermRow, unpackTerms } from "../../src/stores/term-segment.ts";

/** All that segments have, of all indexes of one tenant or of all, by leaf and term. */
export function indexRows(
  query: (sql: string) => readonly Record<string, unknown>[],
  tenantId?: string,
): readonly TermRow[] {
  return query("SELECT tenant_id, first_leaf, terms FROM search_segments")
    .filter((row) => tenantId === undefined || row.tenant_id === tenantId)
    .flatMap((row) => unpackTerms(row.first_leaf as number, row.terms as Uint8Array))
    .sort((one, other) => one.leafIndex - other.leafIndex || Buffer.compare(one.term, other.term));
}

/** Lets the indexes have all leaves, where some wait for more. */
export function settle(path: string): void {
  const connection = openConnection({ path, readOnly: false, busyTimeoutMs: 5_000 });
  const move = connection.prepare("UPDATE search_keys SET filled_to = ? WHERE tenant_id = ? AND serves = 1");
  const [segments, records, terms] = [
    new SearchSegments(connection),
    new RecordsToIndex(connection),
    new SearchTerms(),
  ];
  try {
    inTransaction(connection, () => {
      for (const { tenantId, size } of [...new LogRows(connection).heads()]) {
        const { index } = new SearchIndex(connection).stateOf(tenantId);
        if (index === undefined) continue;
        const range = { first: index.filledTo, end: size };
        const rows = terms.rowsOf(index, records.read(tenantId, range).records);
        for (const segment of segmentsOf(index, range, { rows })) segments.add(tenantId, segment);
        move.run(size, tenantId);
      }
    });
  } finally {
    connection.close();
  }
}
