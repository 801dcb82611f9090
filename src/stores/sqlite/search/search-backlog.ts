/**
 * Adds to the search index of a log many leaves at a time. The terms of one record are spread over the index, so that each
 * of them changes a page: an append that wrote them at once would write more for the index than for the record. So the
 * newest leaves of a log wait, and whoever searches looks at each of them.
 */
import type { TenantId } from "../../../base/ids.ts";
import type { IndexedRecord } from "../../../ledger/search/search-terms.ts";
import type { TermRow } from "../../term-segment.ts";
import type { SqliteConnection } from "../connection.ts";
import { LogRows } from "../log/log-rows.ts";
import { SearchFill } from "./search-fill.ts";
import { type SearchSegments, segmentsOf } from "./search-segments.ts";
import { type IndexGeneration, SearchWriter } from "./search-writer.ts";

/** Leaves of a log that wait at most, and that a search looks at besides: about 2 ms. */
export const backlogLeaves = 64;

/** Emptied segments that one append fills again at most: about 2 ms each. */
const refilledAtOnce = 4;

/** The indexes of a log, as an append leaves them. */
export interface SearchState {
  /** The one that serves, and any that is being built. */
  readonly indexes: readonly IndexGeneration[];
  /** Rows of the leaves that wait, by append; undefined where they have to be made of the records again. */
  readonly waiting: readonly (readonly TermRow[])[] | undefined;
}

/** What an append brings. */
export interface AppendedLeaves {
  /** Leaves before it and after it. */
  readonly before: number;
  readonly size: number;
  readonly records: readonly IndexedRecord[];
}

interface CatchUp extends Pick<AppendedLeaves, "before" | "size"> {
  readonly rows: readonly TermRow[];
  readonly known: SearchState["waiting"];
}

export class SearchBacklog {
  readonly #writer: SearchWriter;
  readonly #fill: SearchFill;
  /** Undefined where the store has none: then all goes into rows. */
  readonly #segments: SearchSegments | undefined;

  constructor(writer: SearchWriter, fill: SearchFill, segments: SearchSegments | undefined) {
    this.#writer = writer;
    this.#fill = fill;
    this.#segments = segments;
  }

  /** The state of a log of which nothing is known but what is stored. */
  stateOf(tenantId: TenantId): SearchState {
    const indexes = this.#writer.indexesOf(tenantId);
    this.#refill(tenantId, indexes, refilledAtOnce);
    return { indexes, waiting: undefined };
  }

  /** Adds an append, or lets it wait. Inside the transaction of the append, with its entries already stored. */
  add(tenantId: TenantId, { indexes, waiting }: SearchState, appended: AppendedLeaves): SearchState {
    const [index, ...others] = indexes;
    if (index === undefined) return { indexes, waiting };
    // While one is built anew, both have what comes: who builds it sees what was there before, and no more.
    if (others.length > 0) {
      for (const each of indexes) this.#writer.addTo(tenantId, each, appended.records);
      return { indexes, waiting: undefined };
    }
    const begun = this.#begun(tenantId, index, appended.before);
    const rows = [...this.#writer.rowsOf(begun, appended.records)];
    const known = begun === index ? waiting : [];
    if (appended.size < begun.fillEnd) {
      if (begun !== index) this.#writer.fillFrom(tenantId, begun);
      return { indexes: [begun], waiting: known && [...known, rows] };
    }
    return this.#catchUp(tenantId, begun, { ...appended, rows, known });
  }

  /** Writes all that waits of a log of this size, and all segments, as rows. An index that is being built is left as it is. */
  settle(tenantId: TenantId, size: number): void {
    const indexes = this.#writer.indexesOf(tenantId);
    this.#refill(tenantId, indexes);
    for (const index of indexes) {
      this.#segments?.takeOut(tenantId, index, size, (rows) => this.#writer.add(tenantId, index, rows));
      const { filledTo, fillEnd } = index;
      if (filledTo === fillEnd || fillEnd - filledTo > backlogLeaves) continue;
      this.#fill.fill(tenantId, index, filledTo, Math.min(size, fillEnd));
      this.#writer.fillFrom(tenantId, { ...index, filledTo: size, fillEnd: size });
    }
  }

  #add(tenantId: TenantId, index: IndexGeneration, rows: readonly TermRow[]): void {
    if (this.#segments === undefined) this.#writer.add(tenantId, index, rows);
    else this.#segments.add(tenantId, index, rows);
  }

  /** Makes rows of the leaves of segments that were emptied. */
  #refill(tenantId: TenantId, indexes: readonly IndexGeneration[], most = Number.POSITIVE_INFINITY): void {
    for (const segment of (this.#segments?.emptied(tenantId) ?? []).slice(0, most)) {
      const index = indexes.find(({ generation }) => generation === segment.generation);
      if (index !== undefined) this.#fill.fill(tenantId, index, segment.first, segment.end);
      this.#segments?.drop(tenantId, segment);
    }
  }

  /** The index with leaves that wait, from `before` on where there are none yet. */
  #begun(tenantId: TenantId, index: IndexGeneration, before: number): IndexGeneration {
    if (index.filledTo < index.fillEnd) {
      if (before < index.fillEnd) return index;
      // Others have appended since, and let nothing wait.
      this.#fill.fill(tenantId, index, index.filledTo, index.fillEnd);
    }
    // Logs that begin together need not catch up together.
    const early = (index.key[0] ?? 0) % (backlogLeaves / 2);
    return { ...index, filledTo: before, fillEnd: before + backlogLeaves - early };
  }

  #catchUp(tenantId: TenantId, index: IndexGeneration, { before, size, rows, known }: CatchUp): SearchState {
    const filledTo = index.fillEnd + Math.floor((size - index.fillEnd) / backlogLeaves) * backlogLeaves;
    if (known === undefined) this.#fill.fill(tenantId, index, index.filledTo, before);
    else this.#add(tenantId, index, known.flat());
    this.#add(
      tenantId,
      index,
      rows.filter(({ leafIndex }) => leafIndex < filledTo),
    );
    const next = { ...index, filledTo, fillEnd: filledTo + backlogLeaves };
    this.#writer.fillFrom(tenantId, next);
    return { indexes: [next], waiting: [rows.filter(({ leafIndex }) => leafIndex >= filledTo)] };
  }
}

/** SQL condition on `search_keys`: so few leaves are missing that a search looks at each of them. */
export const servesSql = `fill_end - filled_to <= ${backlogLeaves}`;

/** Writes what waits of all logs, inside a transaction that the caller holds. */
export function settleSearch(connection: SqliteConnection): void {
  const writer = new SearchWriter(connection);
  const backlog = new SearchBacklog(writer, new SearchFill(connection, writer), segmentsOf(connection));
  for (const { tenantId, size } of [...new LogRows(connection).heads()]) backlog.settle(tenantId, size);
}
