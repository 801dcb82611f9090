/** The part of search indexes that stands in segments, beside the rows of `search_terms`. */
import type { TenantId } from "../../../base/ids.ts";
import type { LeafRange } from "../../../ledger/search/search-index.ts";
import { entryBytes, segmentLeaves, type TermRow, unpackTerms, withoutLeaves } from "../../term-segment.ts";
import { bigintArray, byteaArray, integerArray, textArray } from "../connection/arrays.ts";
import type { Queries, Row, Statement } from "../connection/connection.ts";

/**
 * The schema's version stays: the version before refuses a newer one, and goes on with a database that has this besides.
 * Values are kept as they are, and beside their rows, where they fit: a search goes through them.
 */
export const segmentsTable = `
  CREATE TABLE search_segments (
    tenant_id text COLLATE "C" NOT NULL,
    first_leaf bigint NOT NULL CHECK (first_leaf >= 0),
    generation integer NOT NULL,
    end_leaf bigint NOT NULL CHECK (end_leaf > first_leaf AND end_leaf <= first_leaf + ${segmentLeaves}),
    terms bytea NOT NULL CHECK (length(terms) % ${entryBytes} = 0),
    PRIMARY KEY (tenant_id, first_leaf, generation)
  ) WITH (toast_tuple_target = 8160);
  ALTER TABLE search_segments ALTER COLUMN terms SET STORAGE EXTERNAL`;

/**
 * The version before erases rows alone: so a segment is emptied when an opening goes that it has a leaf of, unless whoever
 * erases puts back the rest.
 */
const trigger = `
  CREATE FUNCTION empty_search_segments() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    UPDATE search_segments AS segment SET terms = ''
      FROM gone JOIN entries USING (tenant_id, record_id)
     WHERE segment.tenant_id = gone.tenant_id
       AND segment.first_leaf > leaf_index - ${segmentLeaves} AND segment.first_leaf <= leaf_index
       AND segment.end_leaf > leaf_index;
    RETURN NULL;
  END $$;
  CREATE TRIGGER search_segments_of_erased AFTER DELETE ON openings
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION empty_search_segments()`;

const withoutTrigger = "DROP TRIGGER search_segments_of_erased ON openings; DROP FUNCTION empty_search_segments()";
/** Asked for, since tables that are spread take no statement about triggers. */
const triggers: Statement = {
  name: "search_segments_trigger",
  text: "SELECT FROM pg_trigger WHERE tgname = 'search_segments_of_erased' AND tgrelid = to_regclass('openings')",
};

const isThere: Statement = {
  name: "has_search_segments",
  text: "SELECT to_regclass('search_segments') IS NOT NULL AS is_there",
};
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
const emptiedOf: Statement = {
  name: "emptied_search_segments_of",
  text: `SELECT first_leaf, generation FROM search_segments
          WHERE tenant_id = $1 AND first_leaf = ANY ($2::bigint[]) AND length(terms) = 0`,
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
const clear: Statement = {
  name: "clear_search_segments",
  text: "DELETE FROM search_segments WHERE tenant_id = $1 AND generation = $2",
};
const sweep: Statement = {
  name: "sweep_search_segments",
  text: "DELETE FROM search_segments WHERE tenant_id = $1 AND first_leaf >= $2 AND first_leaf < $3 AND generation < $4",
};

/**
 * Gives a database what segments take, where it has not got it, inside a transaction that the caller holds.
 * @param run runs statements that have no parameters
 * @param isSpread whether the tables are, or get, spread over nodes: then they have no triggers, and whoever erases must be
 * of this version
 */
export async function addSegments(
  queries: Queries,
  run: (sql: string) => Promise<unknown>,
  isSpread: boolean,
): Promise<void> {
  if (!(await hasSegments(queries))) await run(isSpread ? segmentsTable : `${segmentsTable}; ${trigger}`);
  if (isSpread && (await queries.query(triggers, [])).count > 0) await run(withoutTrigger);
}

/** Whether the database has them: `migrate` of this version makes them. */
export async function hasSegments(queries: Queries): Promise<boolean> {
  return (await queries.query(isThere, [])).rows[0]?.is_there === true;
}

/** What an index has of a few leaves that stand side by side. */
export interface Segment extends LeafRange {
  readonly generation: number;
  /**
   * Empty where somebody erased who knows of rows alone, or a record could not be opened: any of its leaves may be found by
   * anything.
   */
  readonly terms: Uint8Array;
}

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
  return (await segmentsIn(queries, tenantId, { first, end }))
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

/**
 * Removes all that segments have of a few hundred leaves at most, under the lock of the log's head, while the caller deletes
 * their openings.
 * @param deleteOpenings empties the segments of leaves that had one, where the tables have the trigger
 */
export async function removeFromSegments(
  queries: Queries,
  tenantId: TenantId,
  leaves: readonly number[],
  deleteOpenings: () => Promise<unknown>,
): Promise<void> {
  const found = (await hasSegments(queries)) ? await segmentsOf(queries, tenantId, leaves) : [];
  await deleteOpenings();
  // Those that were empty before stay so: nobody knows what they had.
  const segments = found.filter(({ terms }) => terms.length > 0);
  if (segments.length === 0) return;
  const { rows } = await queries.query(emptiedOf, [tenantId, segments.map(({ first }) => first)]);
  const nowEmpty = new Set(rows.map(({ first_leaf, generation }) => `${first_leaf}/${generation}`));
  const gone = new Set(leaves);
  for (const { first, generation, terms } of segments) {
    const rest = withoutLeaves(first, terms, gone);
    // One that had nothing of the leaves is emptied all the same where one of them had an opening.
    if (rest === terms && !nowEmpty.has(`${first}/${generation}`)) continue;
    const key = [tenantId, first, generation];
    await (rest.length === 0 ? queries.query(remove, key) : queries.query(replace, [...key, rest]));
  }
}

/** Removes all of an index: what a rebuild of the version before left of one that had its number. */
export async function clearSegments(queries: Queries, tenantId: TenantId, generation: number): Promise<void> {
  await queries.query(clear, [tenantId, generation]);
}

/** Removes what older indexes than this one have, in segments that begin in a range. */
export async function sweepSegments(
  queries: Queries,
  tenantId: TenantId,
  { first, end, generation }: Look,
): Promise<void> {
  await queries.query(sweep, [tenantId, first, end, generation]);
}

async function segmentsIn(
  queries: Queries,
  tenantId: TenantId,
  { first, end }: LeafRange,
): Promise<readonly Segment[]> {
  return (await queries.query(segmentsWithin, [tenantId, first, end])).rows.map(toSegment);
}

async function segmentsOf(
  queries: Queries,
  tenantId: TenantId,
  leaves: readonly number[],
): Promise<readonly Segment[]> {
  return (await queries.query(segmentsOfLeaves, [tenantId, leaves])).rows.map(toSegment);
}

function toSegment({ first_leaf, end_leaf, generation, terms }: Row): Segment {
  return {
    first: first_leaf as number,
    end: end_leaf as number,
    generation: generation as number,
    terms: terms as Uint8Array,
  };
}
