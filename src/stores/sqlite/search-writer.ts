/** Writes the search index, inside transactions that the caller holds. */
import type { TenantId } from "../../base/ids.ts";
import { blockOf, StoredTerms } from "../../ledger/search-index.ts";
import type { IndexedRecord } from "../../ledger/search-terms.ts";
import type { SqliteConnection, SqliteStatement } from "./connection.ts";

/** One time that an index was, or is being, built. */
export interface IndexGeneration {
  readonly generation: number;
  readonly key: Uint8Array;
}

export class SearchWriter {
  readonly #terms = new StoredTerms();
  readonly #addKey: SqliteStatement;
  readonly #keys: SqliteStatement;
  readonly #insert: SqliteStatement;
  readonly #remove: SqliteStatement;

  constructor(connection: SqliteConnection) {
    this.#addKey = connection.prepare(
      "INSERT OR REPLACE INTO search_keys (tenant_id, generation, key, filled_to, fill_end) VALUES (?, ?, ?, 0, ?)",
    );
    this.#keys = connection.prepare("SELECT generation, key FROM search_keys WHERE tenant_id = ? ORDER BY generation");
    this.#insert = connection.prepare(
      `INSERT INTO search_terms (tenant_id, block, generation, term, leaf_index) VALUES (?, ?, ?, ?, ?)
           ON CONFLICT DO NOTHING`,
    );
    this.#remove = connection.prepare("DELETE FROM search_terms WHERE tenant_id = ? AND block = ? AND leaf_index = ?");
  }

  /**
   * Begins an index. Records that are appended from now on are in it at once; it serves when the leaves before
   * `fillEnd` are in it too.
   */
  begin(tenantId: TenantId, { generation, key }: IndexGeneration, fillEnd: number): void {
    this.#addKey.run(tenantId, generation, key, fillEnd);
  }

  /** Adds new records of a log to all of its indexes: the one that serves, and any that is being built. */
  add(tenantId: TenantId, records: readonly IndexedRecord[]): void {
    for (const row of [...this.#keys.iterate(tenantId)]) {
      this.addTo(tenantId, { generation: row.generation as number, key: row.key as Uint8Array }, records);
    }
  }

  /** Adds records to one index. */
  addTo(tenantId: TenantId, { generation, key }: IndexGeneration, records: Iterable<IndexedRecord>): void {
    for (const { leafIndex, terms } of records) {
      const block = blockOf(leafIndex);
      for (const term of terms) this.#insert.run(tenantId, block, generation, this.#terms.of(key, term), leafIndex);
    }
  }

  /** Removes all that any index has of a leaf. */
  remove(tenantId: TenantId, leafIndex: number): void {
    this.#remove.run(tenantId, blockOf(leafIndex), leafIndex);
  }
}
