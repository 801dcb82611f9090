/** Lets the search indexes of an embedded store have all leaves, where some wait for more. */
import { inTransaction, openConnection } from "../../src/stores/sqlite/connection.ts";
import { settleSearch } from "../../src/stores/sqlite/search/search-backlog.ts";

export function settle(path: string): void {
  const connection = openConnection({ path, readOnly: false, busyTimeoutMs: 5_000 });
  try {
    inTransaction(connection, () => settleSearch(connection));
  } finally {
    connection.close();
  }
}
