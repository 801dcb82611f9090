/** Reads records again, to be indexed. */
import type { TenantId } from "../../base/ids.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import type { LeafRange } from "../../ledger/search/search-index.ts";
import { type IndexedRecord, indexedTermsOf } from "../../ledger/search/search-terms.ts";
import { DamagedError } from "../files/errors.ts";
import { visibleOpening } from "./log-rows.ts";
import type { Queries, Row, Statement } from "./queries.ts";
import { openStoredRecord } from "./stored-record.ts";

/** Sums the bytes of the records before a row, in the order of the answer, without reading them. */
export const bytesBefore = (order: string) =>
  `sum(length(sealed)) OVER (ORDER BY ${order}) - length(sealed) AS bytes_before`;
const entriesOf: Statement = {
  name: "entries_to_index",
  text: `SELECT leaf_index, leaf, sealed, opening FROM
           (SELECT entries.leaf_index, leaf, sealed, ${bytesBefore("entries.leaf_index")}, ${visibleOpening}
             WHERE tenant_id = $1 AND entries.leaf_index >= $2 AND entries.leaf_index < $3) AS asked
          WHERE bytes_before < $4 ORDER BY leaf_index`,
};
/** Bound of the bytes of records that an append reads again; one record is always read. */
export const maxBytesAgain = 4 * 1024 * 1024;

export interface ReadRecords {
  readonly end: number;
  readonly records: readonly IndexedRecord[];
  readonly erased: number;
  /** Indices of the leaves whose record cannot be opened. */
  readonly damaged: readonly number[];
}

/** Reads records of adjacent leaves: all, or the first of them up to a bound of bytes. Without erased records. */
export async function readToIndex(
  queries: Queries,
  tenantId: TenantId,
  { first, end }: LeafRange,
  maxBytes: number,
): Promise<ReadRecords> {
  return toRecords(first, (await queries.query(entriesOf, [tenantId, first, end, maxBytes])).rows);
}

export function toRecords(first: number, rows: readonly Row[]): ReadRecords {
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
