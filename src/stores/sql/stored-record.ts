/** Opens stored records, and reads them again to be indexed. */

import type { TenantId } from "../../base/ids.ts";
import { orUndefined, parseJson } from "../../base/json.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import { type Leaf, parseLeaf } from "../../ledger/record/leaf.ts";
import { open } from "../../ledger/record/sealing.ts";
import type { LeafRange } from "../../ledger/search/search-index.ts";
import { indexedTermsOf } from "../../ledger/search/search-terms.ts";
import { DamagedError } from "../files/errors.ts";
import { onRows, type Queries, queryRows, type Row } from "./queries.ts";
import type { ReadAgain } from "./search-backlog.ts";

/** Parses a stored leaf. Throws `DamagedError`, which names it as `what`, if it does not parse. */
export function readLeaf(what: string, leaf: Uint8Array): Leaf {
  return orDamaged(what, () => parseLeaf(leaf));
}

/** Opens a sealed record. Throws `DamagedError`, which names it as `what`, if its leaf does not commit to it. */
export function openStoredRecord(
  what: string,
  leaf: Uint8Array,
  sealed: Uint8Array,
  opening: Uint8Array,
): StoredRecord {
  const record = openStoredBytes(what, leaf, sealed, opening);
  return orDamaged(what, () => parseJson(Buffer.from(record).toString("utf8")) as StoredRecord);
}

/** Opens a sealed record as `openStoredRecord` does, and returns its exact bytes. */
export function openStoredBytes(what: string, leaf: Uint8Array, sealed: Uint8Array, opening: Uint8Array): Uint8Array {
  return orDamaged(what, () => open(sealed, opening, parseLeaf(leaf).commitment));
}

/** Calls `read`. Throws `DamagedError`, which names `what`, if it throws. */
export function orDamaged<Value>(what: string, read: () => Value): Value {
  try {
    return read();
  } catch (cause) {
    throw new DamagedError(`${what} does not verify`, { cause });
  }
}

/** Leaf by leaf, so that the server's planner knows how few they are. */
const entriesOf = onRows(
  { position: "bigint" },
  (asked, tenant) => `
    SELECT tenant_id, leaf_index, leaf, sealed, opening FROM
           (SELECT entries.tenant_id, entries.leaf_index, leaf, sealed,
                   CASE WHEN erasure_leaf_index IS NULL THEN opening END AS opening,
                   sum(length(sealed)) OVER (ORDER BY entries.tenant_id, entries.leaf_index)
                     - length(sealed) AS bytes_before
              FROM ${asked}
              JOIN entries ON entries.tenant_id = ${tenant} AND entries.leaf_index = asked.position
              LEFT JOIN openings ON openings.tenant_id = entries.tenant_id AND openings.record_id = entries.record_id
              LEFT JOIN erasures ON erasures.tenant_id = entries.tenant_id AND erasures.record_id = entries.record_id)
           AS found
     WHERE bytes_before < $3 ORDER BY tenant_id, leaf_index`,
);
/** Bound of the bytes of records that an append reads again; one record is always read. */
export const maxBytesAgain = 4 * 1024 * 1024;

export interface ReadRecords extends ReadAgain {
  readonly erased: number;
  /** Indices of the leaves whose record cannot be opened. */
  readonly damaged: readonly number[];
}

/** Adjacent leaves of a tenant. */
export interface OwnRange extends LeafRange {
  readonly tenantId: TenantId;
}

/**
 * Reads records of leaves: all, or the first of them up to a bound of bytes over all tenants. Erased records are
 * omitted, and so is a tenant if none of its records was read.
 */
export async function readToIndex(
  queries: Queries,
  ranges: readonly OwnRange[],
  maxBytes: number,
): Promise<ReadonlyMap<TenantId, ReadRecords>> {
  const leaves = ranges.flatMap(({ tenantId, first, end }) =>
    Array.from({ length: end - first }, (_, position) => [tenantId, first + position] as const),
  );
  if (leaves.length === 0) return new Map();
  const { rows } = await queryRows(queries, entriesOf, leaves, maxBytes);
  const byTenant = Map.groupBy(rows, ({ tenant_id }) => tenant_id as TenantId);
  return new Map([...byTenant].map(([tenantId, own]) => [tenantId, toRecords(own)]));
}

function toRecords(rows: readonly Row[]): ReadRecords {
  const read = rows.map((row) => ({ leafIndex: row.leaf_index as number, record: recordOf(row) }));
  return {
    end: (read.at(-1)?.leafIndex ?? -1) + 1,
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
  return orUndefined(() => openStoredRecord(`leaf ${row.leaf_index}`, leaf, sealed, opening)) ?? "damaged";
}
