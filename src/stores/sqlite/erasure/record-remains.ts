/** What of a record must go when it is erased. Its leaf and its sealed bytes stay: the first names nobody, the others nobody can open. */
import type { RecordId, TenantId } from "../../../base/ids.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";
import { SearchWriter } from "../search/search-writer.ts";

export class RecordRemains {
  readonly #search: SearchWriter;
  readonly #opening: SqliteStatement;
  readonly #answers: SqliteStatement;

  constructor(connection: SqliteConnection) {
    this.#search = new SearchWriter(connection);
    this.#opening = connection.prepare("DELETE FROM openings WHERE tenant_id = ? AND record_id = ?");
    // The scope stays for as long as answers are kept, so that a retry is told, rather than recorded a second time.
    this.#answers = connection.prepare(
      "UPDATE kept_answers SET sealed = NULL WHERE tenant_id = ? AND leaf_index = ? AND sealed IS NOT NULL",
    );
  }

  /** Removes all of it, inside a transaction that the caller holds. Returns how many kept answers there were. */
  remove(tenantId: TenantId, recordId: RecordId, leafIndex: number): number {
    this.#opening.run(tenantId, recordId);
    this.#search.remove(tenantId, leafIndex);
    return Number(this.#answers.run(tenantId, leafIndex).changes);
  }
}
