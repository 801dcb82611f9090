/** What the search indexes of an embedded store have, and how they come to have all. */
import { inTransaction, openConnection } from "../../src/stores/sqlite/connection.ts";
import { settleSearch } from "../../src/stores/sqlite/search/search-backlog.ts";
import { type TermRow, unpackTerms } from "../../src/stores/term-segment.ts";

/** All rows and all segments, of all tenants and indexes, by leaf and term. */
export function indexRows(query: (sql: string) => readonly Record<string, unknown>[]): readonly TermRow[] {
  const rows = query("SELECT leaf_index, term FROM search_terms").map((row) => ({
    leafIndex: row.leaf_index as number,
    term: row.term as Uint8Array,
  }));
  const inSegments = query("SELECT first_leaf, terms FROM search_segments").flatMap((row) =>
    unpackTerms(row.first_leaf as number, row.terms as Uint8Array),
  );
  return [...rows, ...inSegments].sort(
    (one, other) => one.leafIndex - other.leafIndex || Buffer.compare(one.term, other.term),
  );
}

/** Lets the indexes have all leaves, where some wait for more, as rows. */
export function settle(path: string): void {
  const connection = openConnection({ path, readOnly: false, busyTimeoutMs: 5_000 });
  try {
    inTransaction(connection, () => settleSearch(connection));
  } finally {
    connection.close();
  }
}
