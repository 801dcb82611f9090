/** The rows of search indexes: their keys, and segments. */
import type { TenantId } from "../../base/ids.ts";
import { type LeafRange, storedTermBytes } from "../../ledger/search/search-index.ts";
import {
  onTenants,
  type Queries,
  queryRows,
  type Row,
  type TenantStatement,
  type Transaction,
  toRow,
} from "./queries.ts";
import { tables } from "./schema.ts";
import type { SearchAddition, SearchIndex, Segment } from "./search-backlog.ts";
import {
  bitBytes,
  entryBytes,
  leavesOfTerms,
  segmentLeaves,
  type TermRow,
  unpackTerms,
  wantedTerms,
  withoutLeaves,
} from "./term-segment.ts";

const within = `tenant_id = $1 AND first_leaf > $2::bigint - ${segmentLeaves} AND first_leaf < $3 AND end_leaf > $2`;
const segmentsWithin = `SELECT first_leaf AS "first", end_leaf AS "end", terms FROM search_segments
   WHERE ${within} ORDER BY first_leaf`;
/**
 * Bits of each of the terms, in segments that have, or may have, all of them. A segment has a term once; NULL if the
 * term only matches across the bounds of entries.
 */
function bitsOfTerms(terms: number): string {
  const places = Array.from({ length: terms }, (_, at) => `position($${at + 4}::bytea IN terms)`);
  const bits = places.map(
    (place, at) =>
      `CASE (${place} - 1) % ${entryBytes} WHEN 0 THEN substr(terms, ${place} + ${storedTermBytes}, ${bitBytes}) END AS bits_${at}`,
  );
  return `SELECT first_leaf, end_leaf, ${bits.join(", ")}
      FROM search_segments
     WHERE ${within} AND ${places.map((place) => `${place} > 0`).join(" AND ")}
     ORDER BY first_leaf`;
}
/** Bytes that a lookup reads. Lengths are known without the values. */
const bytesWithin = `SELECT coalesce(sum(length(terms)), 0)::bigint AS bytes FROM search_segments
   WHERE ${within}`;
const replace = "UPDATE search_segments SET terms = $3 WHERE tenant_id = $1 AND first_leaf = $2";
const remove = "DELETE FROM search_segments WHERE tenant_id = $1 AND first_leaf = $2";
/** Removes segments that begin in a range. */
export const dropSegments = "DELETE FROM search_segments WHERE tenant_id = $1 AND first_leaf >= $2 AND first_leaf < $3";

/**
 * Returns the leaves that all of the terms find or may find, in order, and the bytes of segments that were read.
 * @param terms the most selective term first
 */
export async function leavesInSegments(
  queries: Queries,
  tenantId: TenantId,
  { first, end }: LeafRange,
  terms: readonly [Uint8Array, ...Uint8Array[]],
): Promise<{ readonly leaves: readonly number[]; readonly bytes: number }> {
  const look = [tenantId, first, end];
  const [{ rows }, lengths] = await Promise.all([
    queries.query(bitsOfTerms(terms.length), [...look, ...terms]),
    queries.query(bytesWithin, look),
  ]);
  return {
    leaves: rows.flatMap((row) => leavesOfRow(row, terms.length)).filter((leaf) => leaf >= first && leaf < end),
    bytes: lengths.rows[0]?.bytes as number,
  };
}

function leavesOfRow(row: Row, terms: number): readonly number[] {
  const first = row.first_leaf as number;
  const bits = Array.from({ length: terms }, (_, at) => row[`bits_${at}`] as Uint8Array | null);
  const has = (position: number) => (byBits: Uint8Array | null) =>
    byBits === null || (((byBits[position >> 3] as number) >> (position & 7)) & 1) === 1;
  return Array.from({ length: (row.end_leaf as number) - first }, (_, position) => position)
    .filter((position) => bits.every(has(position)))
    .map((position) => first + position);
}

/** Returns the leaves that any of the terms finds or may find, in order. Reads the segments, once for all terms. */
export async function leavesOfAny(
  queries: Queries,
  tenantId: TenantId,
  { first, end }: LeafRange,
  terms: readonly Uint8Array[],
): Promise<readonly number[]> {
  const wanted = wantedTerms(terms);
  return (await readSegments(queries, tenantId, { first, end }))
    .flatMap((segment) => leavesOfTerms(segment.first, segment.terms, wanted))
    .filter((leafIndex) => leafIndex >= first && leafIndex < end);
}

/** Returns the index rows of a range of leaves. */
export async function rowsInSegments(
  queries: Queries,
  tenantId: TenantId,
  { first, end }: LeafRange,
): Promise<readonly TermRow[]> {
  return (await readSegments(queries, tenantId, { first, end }))
    .flatMap((segment) => unpackTerms(segment.first, segment.terms))
    .filter(({ leafIndex }) => leafIndex >= first && leafIndex < end);
}

/** Removes all entries of a few hundred leaves at most, under the lock of the log's head. */
export async function removeFromSegments(
  queries: Queries,
  tenantId: TenantId,
  leaves: readonly number[],
): Promise<void> {
  const gone = new Set(leaves);
  const found = await Promise.all(
    leaves.map((leaf) => readSegments(queries, tenantId, { first: leaf, end: leaf + 1 })),
  );
  // Each segment once, however many of the leaves it has.
  const segments = new Map(found.flat().map((segment) => [segment.first, segment]));
  const changes = [...segments.values()].flatMap(({ first, terms }) => {
    const rest = withoutLeaves(first, terms, gone);
    if (rest === terms) return [];
    const key = [tenantId, first];
    return [rest.length === 0 ? queries.query(remove, key) : queries.query(replace, [...key, rest])];
  });
  await Promise.all(changes);
}

/** Reads the segments that have leaves of a range. */
async function readSegments(queries: Queries, tenantId: TenantId, { first, end }: LeafRange) {
  return (await queries.query(segmentsWithin, [tenantId, first, end])).rows as unknown as readonly Segment[];
}

const indexes = onTenants(
  (isOwn) => `SELECT tenant_id AS "tenantId", key, filled_to AS "filledTo" FROM search_keys WHERE ${isOwn}`,
);
const move: TenantStatement = {
  ofOne: "UPDATE search_keys SET filled_to = $2 WHERE tenant_id = $1",
  ofMany: `UPDATE search_keys SET filled_to = next.filled_to
      FROM unnest($1::text[], $2::bigint[]) AS next (tenant_id, filled_to)
     WHERE search_keys.tenant_id = next.tenant_id`,
};

type Own<Value> = Omit<Value, "waiting"> & { readonly tenantId: TenantId };

/** Returns the index of a log; undefined if there is none. */
export async function indexOf(queries: Queries, tenantId: TenantId): Promise<SearchIndex | undefined> {
  return (await indexesOf(queries, [tenantId])).get(tenantId);
}

/** Returns the indexes of logs, by tenant. */
export async function indexesOf(
  queries: Queries,
  tenants: readonly TenantId[],
): Promise<ReadonlyMap<TenantId, SearchIndex>> {
  const { rows } = await queryRows(queries, indexes, tenants.map(toRow));
  return new Map((rows as unknown as readonly Own<SearchIndex>[]).map((index) => [index.tenantId, index]));
}

/** Writes what appends add to the indexes of logs, under the locks of their heads. */
export async function addSearch(transaction: Transaction, additions: readonly Own<SearchAddition>[]): Promise<void> {
  const moves = additions.flatMap(({ tenantId, filledTo }) =>
    filledTo === undefined ? [] : [[tenantId, filledTo] as const],
  );
  if (moves.length === 0) return;
  await Promise.all([
    transaction.insert(
      tables.searchSegments,
      additions.flatMap(({ tenantId, segments }) =>
        segments.map(({ first, end, terms }) => [tenantId, first, end, terms]),
      ),
    ),
    transaction.each(move, moves),
  ]);
}
