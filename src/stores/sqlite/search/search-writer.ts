/** Writes the search index, inside transactions that the caller holds. */
import type { TenantId } from "../../../base/ids.ts";
import { blockOf, newestEdition, StoredTerms, termsOfEdition } from "../../../ledger/search/search-index.ts";
import type { IndexedRecord } from "../../../ledger/search/search-terms.ts";
import type { TermRow } from "../../term-segment.ts";
import type { SqliteConnection, SqliteStatement, SqliteValue } from "../connection.ts";

/** One time that an index was, or is being, built. */
export interface IndexGeneration {
  readonly generation: number;
  readonly key: Uint8Array;
  /** Says which fields it has. */
  readonly edition: number;
  /** Leaves from here up to and without `fillEnd` need not be in it yet; all others are. */
  readonly filledTo: number;
  readonly fillEnd: number;
}

/** The column with the edition of an index, or what stands for it in a schema that has none yet. */
export function editionOf(connection: SqliteConnection): string {
  const column = connection.prepare("SELECT 1 FROM pragma_table_info('search_keys') WHERE name = 'fields'").get();
  return column === undefined ? "1" : "fields";
}

/** Rows that one statement adds at most: about as many as a batch of a few records has. */
const maxRowsPerInsert = 32;
/** Values of a row. */
const columns = 5;

export class SearchWriter {
  readonly #terms = new StoredTerms();
  readonly #addKey: SqliteStatement;
  readonly #keys: SqliteStatement;
  readonly #newEdition: number;
  readonly #connection: SqliteConnection;
  /** By the number of rows that they add. */
  readonly #inserts = new Map<number, SqliteStatement>();
  readonly #remove: SqliteStatement;
  readonly #fillFrom: SqliteStatement;

  constructor(connection: SqliteConnection) {
    this.#connection = connection;
    const edition = editionOf(connection);
    const isNewest = edition === "fields";
    this.#addKey = connection.prepare(
      `INSERT OR REPLACE INTO search_keys (tenant_id, generation, key, filled_to, fill_end${isNewest ? ", fields" : ""})
       VALUES (?, ?, ?, 0, ?${isNewest ? `, ${newestEdition}` : ""})`,
    );
    this.#newEdition = isNewest ? newestEdition : 1;
    this.#keys = connection.prepare(
      `SELECT generation, key, ${edition} AS edition, filled_to, fill_end
         FROM search_keys WHERE tenant_id = ? ORDER BY generation`,
    );
    this.#fillFrom = connection.prepare(
      "UPDATE search_keys SET filled_to = ?, fill_end = ? WHERE tenant_id = ? AND generation = ?",
    );
    this.#remove = connection.prepare("DELETE FROM search_terms WHERE tenant_id = ? AND block = ? AND leaf_index = ?");
  }

  /**
   * Begins an index of the newest edition that the schema has. Records that are appended from now on are in it at once; it
   * serves when the leaves before `fillEnd` are in it too.
   */
  begin(
    tenantId: TenantId,
    { generation, key }: Pick<IndexGeneration, "generation" | "key">,
    fillEnd: number,
  ): IndexGeneration {
    this.#addKey.run(tenantId, generation, key, fillEnd);
    return { generation, key, edition: this.#newEdition, filledTo: 0, fillEnd };
  }

  /** Notes which leaves need not be in the index yet. */
  fillFrom(tenantId: TenantId, { generation, filledTo, fillEnd }: IndexGeneration): void {
    this.#fillFrom.run(filledTo, fillEnd, tenantId, generation);
  }

  /** The indexes of a log: the one that serves, and any that is being built. */
  indexesOf(tenantId: TenantId): readonly IndexGeneration[] {
    return [...this.#keys.iterate(tenantId)].map((row) => ({
      generation: row.generation as number,
      key: row.key as Uint8Array,
      edition: row.edition as number,
      filledTo: row.filled_to as number,
      fillEnd: row.fill_end as number,
    }));
  }

  /** What an index has of records, one after the other. */
  *rowsOf({ key, edition }: IndexGeneration, records: Iterable<IndexedRecord>): Generator<TermRow> {
    const stored = this.#terms.under(key);
    for (const { leafIndex, terms } of records)
      for (const term of termsOfEdition(edition, terms)) yield { leafIndex, term: stored(term) };
  }

  /** Adds records to one index. */
  addTo(tenantId: TenantId, index: IndexGeneration, records: Iterable<IndexedRecord>): void {
    this.add(tenantId, index, this.rowsOf(index, records));
  }

  /** Adds rows to an index, or leaves those that it has. */
  add(tenantId: TenantId, { generation }: IndexGeneration, rows: Iterable<TermRow>): void {
    let values: SqliteValue[] = [];
    for (const { leafIndex, term } of rows) {
      values.push(tenantId, blockOf(leafIndex), generation, term, leafIndex);
      if (values.length < maxRowsPerInsert * columns) continue;
      this.#insert(values);
      values = [];
    }
    if (values.length > 0) this.#insert(values);
  }

  /** A statement with many rows costs a third less than as many statements. */
  #insert(values: readonly SqliteValue[]): void {
    const count = values.length / columns;
    const statement =
      this.#inserts.get(count) ??
      this.#connection.prepare(
        `INSERT INTO search_terms (tenant_id, block, generation, term, leaf_index)
         VALUES ${Array(count).fill("(?, ?, ?, ?, ?)").join(", ")} ON CONFLICT DO NOTHING`,
      );
    this.#inserts.set(count, statement);
    statement.run(...values);
  }

  /** Removes all that any index has of a leaf. */
  remove(tenantId: TenantId, leafIndex: number): void {
    this.#remove.run(tenantId, blockOf(leafIndex), leafIndex);
  }
}
