/** Reads records again, to be indexed. */
import type { TenantId } from "../../../base/ids.ts";
import type { StoredRecord } from "../../../ledger/ports/record.ts";
import type { LeafRange } from "../../../ledger/search/search-index.ts";
import { type IndexedRecord, indexedTermsOf } from "../../../ledger/search/search-terms.ts";
import { DamagedError } from "../../errors.ts";
import { openStoredRecord } from "../../stored-record.ts";
import { bigintArray, textArray } from "../connection/arrays.ts";
import type { Queries, Row, Statement } from "../connection/connection.ts";
import { visibleOpening } from "../log/log-statements.ts";

/** Bytes of the records before a row, in the order of the answer. They are counted without being read. */
const bytesBefore = (order: string) => `sum(length(sealed)) OVER (ORDER BY ${order}) - length(sealed) AS bytes_before`;
const entriesOf: Statement = {
  name: "entries_to_index",
  text: `SELECT leaf_index, leaf, sealed, opening FROM
           (SELECT entries.leaf_index, leaf, sealed, ${bytesBefore("entries.leaf_index")}, ${visibleOpening}
             WHERE tenant_id = $1 AND entries.leaf_index >= $2 AND entries.leaf_index < $3) AS asked
          WHERE bytes_before < $4 ORDER BY leaf_index`,
};
/** Leaf by leaf: so the server knows how few they are. */
const entriesOfMany: Statement = {
  name: "entries_to_index_of_many",
  text: `SELECT tenant_id, leaf_index, leaf, sealed, opening FROM
           (SELECT entries.tenant_id, entries.leaf_index, leaf, sealed,
                   ${bytesBefore("entries.tenant_id, entries.leaf_index")}, ${visibleOpening}
              JOIN unnest($1::text[], $2::bigint[]) AS asked (tenant_id, position)
                ON entries.tenant_id = asked.tenant_id AND entries.leaf_index = asked.position) AS read
          WHERE bytes_before < $3 ORDER BY tenant_id, leaf_index`,
};

/** Bytes of records that an append reads again at most, or one record. */
export const maxBytesAgain = 4 * 1024 * 1024;

/** What was found on the way. */
export interface ReadRecords {
  /** Where what was read ends. */
  readonly end: number;
  readonly records: readonly IndexedRecord[];
  readonly erased: number;
  /** Indices of the leaves whose record cannot be opened. It is not among the records. */
  readonly damaged: readonly number[];
}

/**
 * The records of leaves that stand side by side: all, or the first of them that are so large together. What was erased is
 * not among them.
 */
export async function readToIndex(
  queries: Queries,
  tenantId: TenantId,
  { first, end }: LeafRange,
  maxBytes: number,
): Promise<ReadRecords> {
  return toRecords(first, (await queries.query(entriesOf, [tenantId, first, end, maxBytes])).rows);
}

/** As `readToIndex`, of many tenants on one server, which are so large together. Of some it may read none. */
export async function readToIndexOfMany(
  queries: Queries,
  ranges: readonly (LeafRange & { readonly tenantId: TenantId })[],
  maxBytes: number,
): Promise<ReadonlyMap<TenantId, ReadRecords>> {
  if (ranges.length === 0) return new Map();
  const asked = ranges.flatMap(({ tenantId, first, end }) =>
    Array.from({ length: end - first }, (_, position) => ({ tenantId, leaf: first + position })),
  );
  const { rows } = await queries.query(entriesOfMany, [
    textArray(asked.map(({ tenantId }) => tenantId)),
    bigintArray(asked.map(({ leaf }) => leaf)),
    maxBytes,
  ]);
  const byTenant = Map.groupBy(rows, ({ tenant_id }) => tenant_id as TenantId);
  return new Map([...byTenant].map(([tenantId, own]) => [tenantId, toRecords(0, own)]));
}

function toRecords(first: number, rows: readonly Row[]): ReadRecords {
  const read = rows.map((row) => ({ leafIndex: row.leaf_index as number, record: recordOf(row) }));
  return {
    end: (read.at(-1)?.leafIndex ?? first - 1) + 1,
    records: read.flatMap(({ leafIndex, record }) =>
      typeof record === "string" ? [] : [{ leafIndex, terms: indexedTermsOf(record) }],
    ),
    erased: read.filter(({ record }) => record === "erased").length,
    damaged: read.filter(({ record }) => record === "damaged").map(({ leafIndex }) => leafIndex),
  };
}

function recordOf(row: Row): StoredRecord | "erased" | "damaged" {
  if (row.opening === null) return "erased";
  const { leaf, sealed, opening } = row as { leaf: Uint8Array; sealed: Uint8Array; opening: Uint8Array };
  try {
    return openStoredRecord(`leaf ${row.leaf_index}`, leaf, sealed, opening);
  } catch (error) {
    if (error instanceof DamagedError) return "damaged";
    throw error;
  }
}
