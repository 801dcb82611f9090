/** What search indexes have, in segments. */
import type { TenantId } from "../../../base/ids.ts";
import type { LeafRange } from "../../../ledger/search/search-index.ts";
import type { Segment } from "../../search-backlog.ts";
import { entryBytes, segmentLeaves, type TermRow, unpackTerms, withoutLeaves } from "../../term-segment.ts";
import { bigintArray, byteaArray, integerArray, textArray } from "../connection/arrays.ts";
import type { Queries, Row, Statement } from "../connection/connection.ts";

const insert: Statement = {
  name: "insert_search_segments",
  text: `INSERT INTO search_segments (tenant_id, first_leaf, generation, end_leaf, terms)
         SELECT head.tenant_id, row.*
           FROM log_heads head, unnest($2::bigint[], $3::integer[], $4::bigint[], $5::bytea[]) AS row
          WHERE head.tenant_id = $1`,
};
const insertOfMany: Statement = {
  name: "insert_search_segments_of_many",
  text: `INSERT INTO search_segments (tenant_id, first_leaf, generation, end_leaf, terms)
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::integer[], $4::bigint[], $5::bytea[])`,
};
const within = `tenant_id = $1 AND first_leaf > $2::bigint - ${segmentLeaves} AND first_leaf < $3 AND end_leaf > $2`;
const segmentsWithin: Statement = {
  name: "search_segments_within",
  text: `SELECT first_leaf, end_leaf, generation, terms FROM search_segments WHERE ${within} ORDER BY first_leaf`,
};
/**
 * Each segment once, however many of the leaves it has. OFFSET makes the server look leaf by leaf: it takes the few
 * segments of a leaf for many, and would join the leaves with all that the log has.
 */
const segmentsOfLeaves: Statement = {
  name: "search_segments_of_leaves",
  text: `SELECT first_leaf, end_leaf, generation, terms FROM search_segments
          WHERE tenant_id = $1 AND (first_leaf, generation) IN
                (SELECT own.first_leaf, own.generation
                   FROM unnest($2::bigint[]) AS leaf, LATERAL
                        (SELECT first_leaf, generation FROM search_segments
                          WHERE tenant_id = $1 AND first_leaf > leaf - ${segmentLeaves} AND first_leaf <= leaf
                            AND end_leaf > leaf OFFSET 0) AS own)`,
};
const emptied: Statement = {
  name: "emptied_search_segments",
  text: `SELECT first_leaf, end_leaf FROM search_segments
          WHERE tenant_id = $1 AND generation = $2 AND length(terms) = 0 ORDER BY first_leaf`,
};
/**
 * Bits of each term, the first of which is asked for by itself, since few segments have it. A segment has a term once; all bits
 * where the bytes of other entries make the term.
 */
const bitsOfTerms: Statement = {
  name: "search_segments_of_terms",
  text: `SELECT first_leaf, end_leaf, length(terms) = 0 AS is_emptied,
                ARRAY(SELECT CASE (position(wanted IN terms) - 1) % ${entryBytes}
                             WHEN 0 THEN substring(terms FROM position(wanted IN terms) + length(wanted) FOR 8)
                             ELSE '\\xffffffffffffffff' END
                        FROM unnest($5::bytea[]) AS wanted) AS bits
           FROM search_segments
          WHERE ${within} AND generation = $4
            AND (length(terms) = 0
                 OR (position($6::bytea IN terms) > 0
                     AND NOT EXISTS (SELECT FROM unnest($5::bytea[]) AS wanted WHERE position(wanted IN terms) = 0)))
          ORDER BY first_leaf`,
};
/** How much a look goes through. Lengths are known without the values. */
const bytesWithin: Statement = {
  name: "search_segment_bytes_within",
  text: `SELECT coalesce(sum(length(terms)), 0)::bigint AS bytes FROM search_segments WHERE ${within} AND generation = $4`,
};
const replace: Statement = {
  name: "replace_search_segment",
  text: "UPDATE search_segments SET terms = $4 WHERE tenant_id = $1 AND first_leaf = $2 AND generation = $3",
};
const remove: Statement = {
  name: "remove_search_segment",
  text: "DELETE FROM search_segments WHERE tenant_id = $1 AND first_leaf = $2 AND generation = $3",
};
const sweep: Statement = {
  name: "sweep_search_segments",
  text: "DELETE FROM search_segments WHERE tenant_id = $1 AND first_leaf >= $2 AND first_leaf < $3 AND generation < $4",
};

export async function addSegmentsTo(queries: Queries, tenantId: TenantId, segments: readonly Segment[]): Promise<void> {
  if (segments.length > 0) await queries.query(insert, [tenantId, ...columnsOf(segments)]);
}

/** As `addSegmentsTo`, of many tenants on one server. */
export async function addSegmentsOfMany(
  queries: Queries,
  segments: readonly (Segment & { readonly tenantId: TenantId })[],
): Promise<void> {
  if (segments.length === 0) return;
  await queries.query(insertOfMany, [textArray(segments.map(({ tenantId }) => tenantId)), ...columnsOf(segments)]);
}

function columnsOf(segments: readonly Segment[]): readonly Buffer[] {
  return [
    bigintArray(segments.map(({ first }) => first)),
    integerArray(segments.map(({ generation }) => generation)),
    bigintArray(segments.map(({ end }) => end)),
    byteaArray(segments.map(({ terms }) => terms)),
  ];
}

/** Where in an index to look. */
interface Look extends LeafRange {
  readonly generation: number;
}

/**
 * The leaves that all of the terms find or may find, in order, and the bytes of segments that were gone through for them.
 * @param terms the one that finds the fewest first
 */
export async function leavesInSegments(
  queries: Queries,
  tenantId: TenantId,
  { first, end, generation }: Look,
  terms: readonly [Uint8Array, ...Uint8Array[]],
): Promise<{ readonly leaves: readonly number[]; readonly bytes: number }> {
  const look = [tenantId, first, end, generation];
  const [{ rows }, lengths] = await Promise.all([
    queries.query(bitsOfTerms, [...look, terms, terms[0]]),
    queries.query(bytesWithin, look),
  ]);
  return {
    leaves: rows.flatMap(leavesOfRow).filter((leaf) => leaf >= first && leaf < end),
    bytes: lengths.rows[0]?.bytes as number,
  };
}

function leavesOfRow({ first_leaf, end_leaf, is_emptied, bits }: Row): readonly number[] {
  const first = first_leaf as number;
  const has = (position: number) => (byBits: Uint8Array) =>
    (((byBits[position >> 3] as number) >> (position & 7)) & 1) === 1;
  return Array.from({ length: (end_leaf as number) - first }, (_, position) => position)
    .filter((position) => is_emptied === true || (bits as readonly Uint8Array[]).every(has(position)))
    .map((position) => first + position);
}

/** What an index has of a range of leaves. */
export async function rowsInSegments(
  queries: Queries,
  tenantId: TenantId,
  { first, end, generation }: Look,
): Promise<readonly TermRow[]> {
  return (await queries.query(segmentsWithin, [tenantId, first, end])).rows
    .map(toSegment)
    .filter((segment) => segment.generation === generation)
    .flatMap((segment) => unpackTerms(segment.first, segment.terms))
    .filter(({ leafIndex }) => leafIndex >= first && leafIndex < end);
}

/** Ranges of leaves whose segments were emptied. */
export async function emptiedSegments(
  queries: Queries,
  tenantId: TenantId,
  generation: number,
): Promise<readonly LeafRange[]> {
  return (await queries.query(emptied, [tenantId, generation])).rows.map((row) => ({
    first: row.first_leaf as number,
    end: row.end_leaf as number,
  }));
}

/** Removes all that segments have of a few hundred leaves at most, under the lock of the log's head. */
export async function removeFromSegments(
  queries: Queries,
  tenantId: TenantId,
  leaves: readonly number[],
): Promise<void> {
  const gone = new Set(leaves);
  for (const row of (await queries.query(segmentsOfLeaves, [tenantId, leaves])).rows) {
    const { first, generation, terms } = toSegment(row);
    const rest = withoutLeaves(first, terms, gone);
    if (rest === terms) continue;
    const key = [tenantId, first, generation];
    await (rest.length === 0 ? queries.query(remove, key) : queries.query(replace, [...key, rest]));
  }
}

/** Removes what older indexes than this one have, in segments that begin in a range. */
export async function sweepSegments(
  queries: Queries,
  tenantId: TenantId,
  { first, end, generation }: Look,
): Promise<void> {
  await queries.query(sweep, [tenantId, first, end, generation]);
}

function toSegment({ first_leaf, end_leaf, generation, terms }: Row): Segment {
  return {
    first: first_leaf as number,
    end: end_leaf as number,
    generation: generation as number,
    terms: terms as Uint8Array,
  };
}
