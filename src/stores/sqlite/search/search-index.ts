/** The index of a log that serves, as appends write it, inside transactions that the caller holds. */
import type { TenantId } from "../../../base/ids.ts";
import type { StoredRecord } from "../../../ledger/ports/record.ts";
import type { LeafRange } from "../../../ledger/search/search-index.ts";
import { type IndexedRecord, indexedTermsOf } from "../../../ledger/search/search-terms.ts";
import { DamagedError } from "../../errors.ts";
import {
  type AppendedLeaves,
  additionOf,
  type IndexGeneration,
  leavesToRead,
  SearchTerms,
  type Waiting,
} from "../../search-backlog.ts";
import { openStoredRecord } from "../../stored-record.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";
import { SearchSegments } from "./search-segments.ts";

/** The index of a log, as an append leaves it. */
export interface SearchState {
  readonly index: IndexGeneration | undefined;
  readonly waiting: Waiting | undefined;
}

export class SearchIndex {
  readonly #terms = new SearchTerms();
  readonly #segments: SearchSegments;
  readonly #records: RecordsToIndex;
  readonly #serving: SqliteStatement;
  readonly #addKey: SqliteStatement;
  readonly #move: SqliteStatement;

  constructor(connection: SqliteConnection) {
    this.#segments = new SearchSegments(connection);
    this.#records = new RecordsToIndex(connection);
    this.#serving = connection.prepare(servingSql);
    this.#addKey = connection.prepare(
      "INSERT INTO search_keys (tenant_id, generation, key, filled_to, serves) VALUES (?, ?, ?, 0, 1)",
    );
    this.#move = connection.prepare("UPDATE search_keys SET filled_to = ? WHERE tenant_id = ? AND generation = ?");
  }

  /** The state of a log of which nothing is known but what is stored. */
  stateOf(tenantId: TenantId): SearchState {
    const row = this.#serving.get(tenantId);
    return { index: row && toIndex(row), waiting: undefined };
  }

  /** Begins the index of a log that begins too. */
  begin(tenantId: TenantId, key: Uint8Array): SearchState {
    const index = { generation: 1, key, filledTo: 0 };
    this.#addKey.run(tenantId, index.generation, key);
    return { index, waiting: undefined };
  }

  /** Adds an append, or lets it wait. Its entries, and those before it, are stored. */
  append(
    tenantId: TenantId,
    { index, waiting }: SearchState,
    { before, size, records }: Pick<AppendedLeaves, "before" | "size" | "records">,
  ): SearchState {
    const range = leavesToRead({ index, size: before, waiting }, size - before);
    const read = range && this.#records.read(tenantId, range);
    const addition = additionOf(this.#terms, { index, before, size, records, waiting, read });
    for (const segment of addition.segments) this.#segments.add(tenantId, segment);
    const { move } = addition;
    if (index === undefined || move === undefined) return { index, waiting: addition.waiting };
    this.#move.run(move.filledTo, tenantId, move.generation);
    return { index: { ...index, ...move }, waiting: addition.waiting };
  }
}

/** Of a tenant: one row at most. */
export const servingSql = "SELECT generation, key, filled_to FROM search_keys WHERE tenant_id = ? AND serves = 1";

export function toIndex({ generation, key, filled_to }: Record<string, unknown>): IndexGeneration {
  return { generation: generation as number, key: key as Uint8Array, filledTo: filled_to as number };
}

/** Records of a part of a log, to be indexed. */
export interface ReadRecords {
  /** Where what was read ends. */
  readonly end: number;
  readonly records: readonly IndexedRecord[];
  readonly erased: number;
  /** Indices of the leaves whose record cannot be opened. It is not among the records. */
  readonly damaged: readonly number[];
}

/** Reads records again. What was erased is not among them, also if a backup brought its opening back. */
export class RecordsToIndex {
  readonly #entries: SqliteStatement;

  constructor(connection: SqliteConnection) {
    this.#entries = connection.prepare(
      `SELECT leaf_index, leaf, sealed, CASE WHEN erasure_leaf_index IS NULL THEN opening END AS opening
         FROM entries
         LEFT JOIN openings USING (tenant_id, record_id)
         LEFT JOIN (SELECT tenant_id, record_id, erasure_leaf_index FROM erasures) USING (tenant_id, record_id)
        WHERE tenant_id = ? AND leaf_index >= ? AND leaf_index < ? ORDER BY leaf_index`,
    );
  }

  read(tenantId: TenantId, { first, end }: LeafRange): ReadRecords {
    let erased = 0;
    const [records, damaged] = [[] as IndexedRecord[], [] as number[]];
    for (const row of this.#entries.iterate(tenantId, first, end)) {
      const leafIndex = row.leaf_index as number;
      const record = recordOf(row);
      if (record === "erased") erased += 1;
      else if (record === "damaged") damaged.push(leafIndex);
      else records.push({ leafIndex, terms: indexedTermsOf(record) });
    }
    return { end, records, erased, damaged };
  }
}

function recordOf(row: Record<string, unknown>): StoredRecord | "erased" | "damaged" {
  if (row.opening === null) return "erased";
  const { leaf, sealed, opening } = row as { leaf: Uint8Array; sealed: Uint8Array; opening: Uint8Array };
  try {
    return openStoredRecord(`leaf ${row.leaf_index}`, leaf, sealed, opening);
  } catch (error) {
    if (error instanceof DamagedError) return "damaged";
    throw error;
  }
}
