/** What search indexes have, in segments. Rows of the table only ever come last, so erasing leaves no copies behind. */
import type { TenantId } from "../../../base/ids.ts";
import type { LeafRange } from "../../../ledger/search/search-index.ts";
import type { Segment } from "../../search-backlog.ts";
import { leavesOfTerm, segmentLeaves, type TermRow, unpackTerms, withoutLeaf } from "../../term-segment.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";

/** Writes inside transactions that the caller holds. */
export class SearchSegments {
  readonly #add: SqliteStatement;
  readonly #within: SqliteStatement;
  readonly #withTerm: SqliteStatement;
  readonly #emptied: SqliteStatement;
  readonly #replace: SqliteStatement;
  readonly #remove: SqliteStatement;
  readonly #sweep: SqliteStatement;

  constructor(connection: SqliteConnection) {
    this.#add = connection.prepare(
      "INSERT INTO search_segments (tenant_id, first_leaf, generation, end_leaf, terms) VALUES (?, ?, ?, ?, ?)",
    );
    const columns = "SELECT generation, first_leaf, end_leaf, terms FROM search_segments WHERE tenant_id = ?";
    const within = `${columns} AND first_leaf > ? - ${segmentLeaves} AND first_leaf < ?`;
    this.#within = connection.prepare(`${within} ORDER BY first_leaf`);
    this.#withTerm = connection.prepare(
      `${within} AND generation = ? AND (length(terms) = 0 OR instr(terms, ?) > 0) ORDER BY first_leaf`,
    );
    this.#emptied = connection.prepare(`${columns} AND generation = ? AND length(terms) = 0 ORDER BY first_leaf`);
    const one = "WHERE tenant_id = ? AND first_leaf = ? AND generation = ?";
    this.#replace = connection.prepare(`UPDATE search_segments SET terms = ? ${one}`);
    this.#remove = connection.prepare(`DELETE FROM search_segments ${one}`);
    this.#sweep = connection.prepare(
      "DELETE FROM search_segments WHERE tenant_id = ? AND first_leaf >= ? AND first_leaf < ? AND generation < ?",
    );
  }

  add(tenantId: TenantId, { first, generation, end, terms }: Segment): void {
    this.#add.run(tenantId, first, generation, end, terms);
  }

  /** The leaves of a range that a term finds or may find, in order. */
  leavesOf(tenantId: TenantId, generation: number, term: Uint8Array, { first, end }: LeafRange): readonly number[] {
    return [...this.#withTerm.iterate(tenantId, first, end, generation, term)]
      .map(segmentOf)
      .flatMap((segment) => (isEmptied(segment) ? leavesIn(segment) : leavesOfTerm(segment.first, segment.terms, term)))
      .filter((leaf) => leaf >= first && leaf < end);
  }

  /** What an index has of a range of leaves. */
  *rowsOf(tenantId: TenantId, generation: number, { first, end }: LeafRange): Generator<TermRow> {
    for (const segment of this.#segments(tenantId, { first, end })) {
      if (segment.generation !== generation) continue;
      for (const row of unpackTerms(segment.first, segment.terms))
        if (row.leafIndex >= first && row.leafIndex < end) yield row;
    }
  }

  /** Segments of an index that are empty, since a record could not be opened. */
  emptied(tenantId: TenantId, generation: number): readonly LeafRange[] {
    return [...this.#emptied.iterate(tenantId, generation)].map(segmentOf);
  }

  /** Removes all that any index has of a leaf. */
  remove(tenantId: TenantId, leafIndex: number): void {
    for (const segment of this.#segments(tenantId, { first: leafIndex, end: leafIndex + 1 })) {
      const { first, generation, terms } = segment;
      const rest = withoutLeaf(first, terms, leafIndex);
      if (rest === terms) continue;
      if (rest.length === 0) this.#remove.run(tenantId, first, generation);
      else this.#replace.run(rest, tenantId, first, generation);
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
