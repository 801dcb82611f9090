/** Fills search indexes from the records. */
import type { RandomFill, TenantId } from "../../../base/ids.ts";
import type { StoredRecord } from "../../../ledger/ports/record.ts";
import { searchKeyBytes } from "../../../ledger/search/search-index.ts";
import { type IndexedRecord, indexedTermsOf } from "../../../ledger/search/search-terms.ts";
import { DamagedError } from "../../errors.ts";
import { openStoredRecord } from "../../stored-record.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";
import { hasErasures } from "../erasure/noted-erasures.ts";
import { LogRows } from "../log/log-rows.ts";
import { type IndexGeneration, SearchWriter } from "./search-writer.ts";

/** What was found on the way. */
export interface Filled {
  readonly erased: number;
  /** Indices of the leaves whose record cannot be opened. */
  readonly damaged: readonly number[];
}

/** Adds the records of a part of a log to an index. A record that cannot be opened is left out: nobody finds it. */
export class SearchFill {
  readonly #writer: SearchWriter;
  readonly #entries: SqliteStatement;

  constructor(connection: SqliteConnection, writer: SearchWriter) {
    this.#writer = writer;
    // A schema from before erasures is filled too. What was erased is not indexed, also where a backup brought it back.
    const isErased = hasErasures(connection)
      ? `EXISTS (SELECT 1 FROM erasures
                  WHERE erasures.tenant_id = entries.tenant_id AND erasures.record_id = entries.record_id)`
      : "FALSE";
    this.#entries = connection.prepare(
      `SELECT leaf_index, leaf, sealed, CASE WHEN ${isErased} THEN NULL ELSE opening END AS opening
         FROM entries LEFT JOIN openings USING (tenant_id, record_id)
        WHERE tenant_id = ? AND leaf_index >= ? AND leaf_index < ? ORDER BY leaf_index`,
    );
  }

  /** Leaves from `first` up to and without `end`. Memory does not grow with them. */
  fill(tenantId: TenantId, index: IndexGeneration, first: number, end: number): Filled {
    let erased = 0;
    const damaged: number[] = [];
    const rows = this.#entries.iterate(tenantId, first, end);
    const readable = function* (): Generator<IndexedRecord> {
      for (const row of rows) {
        const leafIndex = row.leaf_index as number;
        const record = recordOf(row);
        if (record === "erased") erased += 1;
        else if (record === "damaged") damaged.push(leafIndex);
        else yield { leafIndex, terms: indexedTermsOf(record) };
      }
    };
    this.#writer.addTo(tenantId, index, readable());
    return { erased, damaged };
  }
}

function recordOf(row: Record<string, unknown>): StoredRecord | "erased" | "damaged" {
  if (row.opening === null) return "erased";
  try {
    return openStoredRecord(
      `leaf ${row.leaf_index}`,
      row.leaf as Uint8Array,
      row.sealed as Uint8Array,
      row.opening as Uint8Array,
    );
  } catch (error) {
    if (error instanceof DamagedError) return "damaged";
    throw error;
  }
}

/** Makes the index of every log that was written before there was one. Runs in the migration's transaction. */
export function buildSearch(connection: SqliteConnection, random: RandomFill): void {
  const writer = new SearchWriter(connection);
  const fill = new SearchFill(connection, writer);
  for (const { tenantId, size } of [...new LogRows(connection).heads()]) {
    const index = writer.begin(tenantId, { generation: 1, key: random(new Uint8Array(searchKeyBytes)) }, 0);
    fill.fill(tenantId, index, 0, size);
  }
}
