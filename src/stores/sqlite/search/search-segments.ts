/** The part of search indexes that stands in segments, beside the rows of `search_terms`. */
import type { TenantId } from "../../../base/ids.ts";
import type { LeafRange } from "../../../ledger/search/search-index.ts";
import {
  entryBytes,
  leavesOfTerm,
  packTerms,
  segmentLeaves,
  type TermRow,
  unpackTerms,
  withoutLeaf,
} from "../../term-segment.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";
import type { IndexGeneration } from "./search-writer.ts";

const leafOfOpening = "(SELECT leaf_index FROM entries WHERE tenant_id = OLD.tenant_id AND record_id = OLD.record_id)";

/**
 * The schema's version stays: the version before knows no newer one, and goes on with a store that has this besides. It
 * takes the index for one that is not whole, because leaves wait for it, and so looks at every record; what it appends is
 * in rows. Where it erases, it knows of rows alone: so a segment is emptied when an opening goes that it has a leaf of,
 * unless whoever erases puts back the rest. Rows of the table only ever come last, so erasing leaves no copies behind.
 */
const schema = `
  CREATE TABLE IF NOT EXISTS search_segments (
    tenant_id TEXT NOT NULL,
    first_leaf INTEGER NOT NULL CHECK (first_leaf >= 0),
    generation INTEGER NOT NULL,
    end_leaf INTEGER NOT NULL CHECK (end_leaf > first_leaf AND end_leaf <= first_leaf + ${segmentLeaves}),
    terms BLOB NOT NULL CHECK (length(terms) % ${entryBytes} = 0),
    PRIMARY KEY (tenant_id, first_leaf, generation)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS search_segments_emptied ON search_segments (tenant_id, first_leaf) WHERE length(terms) = 0;
  CREATE TRIGGER IF NOT EXISTS search_segments_of_erased AFTER DELETE ON openings BEGIN
    UPDATE search_segments SET terms = x''
     WHERE tenant_id = OLD.tenant_id
       AND first_leaf > ${leafOfOpening} - ${segmentLeaves}
       AND first_leaf <= ${leafOfOpening}
       AND end_leaf > ${leafOfOpening};
  END;
`;

/** Gives a store of the newest schema what segments take, where it has not got it. */
export function addSegments(connection: SqliteConnection): void {
  connection.exec(schema);
}

/** Undefined where a store has none: one that no service of this version has served yet. */
export function segmentsOf(connection: SqliteConnection): SearchSegments | undefined {
  const table = connection.prepare("SELECT 1 FROM main.sqlite_schema WHERE name = 'search_segments'").get();
  return table && new SearchSegments(connection);
}

interface Segment extends LeafRange {
  readonly generation: number;
  /** Empty where somebody erased who knows of rows alone: any of its leaves may be found by anything. */
  readonly terms: Uint8Array;
}

/** Writes inside transactions that the caller holds. */
export class SearchSegments {
  readonly #add: SqliteStatement;
  readonly #within: SqliteStatement;
  readonly #withTerm: SqliteStatement;
  readonly #emptied: SqliteStatement;
  readonly #replace: SqliteStatement;
  readonly #remove: SqliteStatement;
  readonly #sweep: SqliteStatement;

  /** The store must have what `addSegments` gives it. */
  constructor(connection: SqliteConnection) {
    this.#add = connection.prepare(
      `INSERT INTO search_segments (tenant_id, first_leaf, generation, end_leaf, terms) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET end_leaf = max(end_leaf, excluded.end_leaf),
                                 terms = CAST(terms || excluded.terms AS BLOB)`,
    );
    const columns = "SELECT generation, first_leaf, end_leaf, terms FROM search_segments WHERE tenant_id = ?";
    const within = `${columns} AND first_leaf > ? - ${segmentLeaves} AND first_leaf < ?`;
    this.#within = connection.prepare(`${within} ORDER BY first_leaf`);
    this.#withTerm = connection.prepare(
      `${within} AND generation = ? AND (length(terms) = 0 OR instr(terms, ?) > 0) ORDER BY first_leaf`,
    );
    this.#emptied = connection.prepare(`${columns} AND length(terms) = 0 ORDER BY first_leaf`);
    const one = "WHERE tenant_id = ? AND first_leaf = ? AND generation = ?";
    this.#replace = connection.prepare(`UPDATE search_segments SET terms = ? ${one}`);
    this.#remove = connection.prepare(`DELETE FROM search_segments ${one}`);
    this.#sweep = connection.prepare(
      "DELETE FROM search_segments WHERE tenant_id = ? AND first_leaf >= ? AND first_leaf < ? AND generation < ?",
    );
  }

  /** Adds rows to an index, in the order of their leaves. */
  add(tenantId: TenantId, { generation }: IndexGeneration, rows: readonly TermRow[]): void {
    for (let at = 0; at < rows.length; ) {
      const first = (rows[at] as TermRow).leafIndex;
      let end = at + 1;
      while (end < rows.length && (rows[end] as TermRow).leafIndex < first + segmentLeaves) end++;
      const part = rows.slice(at, end);
      const endLeaf = (part.at(-1) as TermRow).leafIndex + 1;
      this.#add.run(tenantId, first, generation, endLeaf, packTerms(first, part));
      at = end;
    }
  }

  /** The leaves of a range that a term finds or may find, in order. */
  leavesOf(tenantId: TenantId, generation: number, term: Uint8Array, { first, end }: LeafRange): readonly number[] {
    const leaves = [...this.#withTerm.iterate(tenantId, first, end, generation, term)]
      .map(segmentOf)
      .flatMap((segment) => (isEmptied(segment) ? leavesIn(segment) : leavesOfTerm(segment.first, segment.terms, term)))
      .filter((leaf) => leaf >= first && leaf < end);
    return [...new Set(leaves)].sort((one, other) => one - other);
  }

  /** What an index has of a range of leaves. */
  *rowsOf(tenantId: TenantId, generation: number, { first, end }: LeafRange): Generator<TermRow> {
    for (const segment of this.#segments(tenantId, { first, end })) {
      if (segment.generation !== generation) continue;
      for (const row of unpackTerms(segment.first, segment.terms))
        if (row.leafIndex >= first && row.leafIndex < end) yield row;
    }
  }

  /** Segments of a log that were emptied. */
  emptied(tenantId: TenantId): readonly (LeafRange & { readonly generation: number })[] {
    return [...this.#emptied.iterate(tenantId)].map(segmentOf);
  }

  /**
   * Removes all that any index has of a leaf, while the caller deletes its opening.
   * @param deleteOpening empties the segment
   */
  remove(tenantId: TenantId, leafIndex: number, deleteOpening: () => void): void {
    const segments = this.#segments(tenantId, { first: leafIndex, end: leafIndex + 1 });
    deleteOpening();
    for (const segment of segments) {
      if (isEmptied(segment)) continue;
      const rest = withoutLeaf(segment.first, segment.terms, leafIndex);
      if (rest.length === 0) this.drop(tenantId, segment);
      else this.#replace.run(rest, tenantId, segment.first, segment.generation);
    }
  }

  drop(tenantId: TenantId, { first, generation }: Pick<Segment, "first" | "generation">): void {
    this.#remove.run(tenantId, first, generation);
  }

  /** Takes out what an index has of leaves before `end`; hands over the rows of each segment. */
  takeOut(
    tenantId: TenantId,
    { generation }: IndexGeneration,
    end: number,
    take: (rows: readonly TermRow[]) => void,
  ): void {
    for (let first = 0; first < end; first += takenEach) {
      for (const segment of this.#segments(tenantId, { first, end: Math.min(end, first + takenEach) })) {
        if (segment.generation !== generation) continue;
        take(unpackTerms(segment.first, segment.terms));
        this.drop(tenantId, segment);
      }
    }
  }

  /** Removes what older indexes than this one have, in segments that begin in a range. */
  sweep(tenantId: TenantId, generation: number, { first, end }: LeafRange): void {
    this.#sweep.run(tenantId, first, end, generation);
  }

  /** All that may have leaves of the range, of every index; read at once, so that the caller may change them. */
  #segments(tenantId: TenantId, { first, end }: LeafRange): readonly Segment[] {
    return [...this.#within.iterate(tenantId, first, end)].map(segmentOf);
  }
}

/** Leaves of which segments are taken out at a time, for the memory that they take. */
const takenEach = 4_096;

function isEmptied({ terms }: Segment): boolean {
  return terms.length === 0;
}

function leavesIn({ first, end }: LeafRange): readonly number[] {
  return Array.from({ length: end - first }, (_, position) => first + position);
}

function segmentOf(row: Record<string, unknown>): Segment {
  return {
    generation: row.generation as number,
    first: row.first_leaf as number,
    end: row.end_leaf as number,
    terms: row.terms as Uint8Array,
  };
}
