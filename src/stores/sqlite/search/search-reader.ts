/** Finds records by their terms and their time. */
import type { TenantId } from "../../../base/ids.ts";
import {
  type FoundRecord,
  type SearchPage,
  type SearchQuery,
  type SearchTerm,
  searchFields,
} from "../../../ledger/ports/search.ts";
import {
  blockLeaves,
  blockOf,
  indexedOf,
  type LeafRange,
  StoredTerms,
  withDecision,
} from "../../../ledger/search/search-index.ts";
import { hasTerms } from "../../../ledger/search/search-terms.ts";
import { DamagedError } from "../../errors.ts";
import type { IndexGeneration } from "../../search-backlog.ts";
import { openStoredRecord, readLeaf } from "../../stored-record.ts";
import { inSnapshot, type SqliteConnection, type SqliteStatement } from "../connection.ts";
import { LogRows } from "../log/log-rows.ts";
import { servingSql, toIndex } from "./search-index.ts";
import { SearchSegments } from "./search-segments.ts";

/**
 * After so many steps a page ends, found or not: about 100 ms where each of them opens a record, 200 ms where it looks
 * into the index of a block.
 */
const maxSteps = 4_096;

/** Indices of leaves of the range whose records may have all of the terms, in order. Empty where there are none. */
type Candidates = (range: LeafRange) => readonly number[];

export class SearchReader {
  readonly #connection: SqliteConnection;
  readonly #rows: LogRows;
  readonly #terms = new StoredTerms();
  readonly #entry: SqliteStatement;
  readonly #indexOf: SqliteStatement;
  readonly #serving: SqliteStatement;
  readonly #segments: SearchSegments;

  constructor(connection: SqliteConnection) {
    this.#connection = connection;
    this.#rows = new LogRows(connection);
    this.#entry = connection.prepare(
      `SELECT leaf, sealed, opening
         FROM entries LEFT JOIN openings USING (tenant_id, record_id)
        WHERE tenant_id = ? AND leaf_index = ?`,
    );
    this.#indexOf = connection.prepare("SELECT leaf_index FROM entries WHERE tenant_id = ? AND record_id = ?");
    this.#serving = connection.prepare(servingSql);
    this.#segments = new SearchSegments(connection);
  }

  /**
   * A page of what is found; empty where the tenant has no log. What the index says is checked with the record itself.
   * Without an index every record is looked at: slow, and right. Throws `DamagedError` where a record on the way
   * does not verify.
   */
  search(query: SearchQuery): SearchPage {
    // One snapshot: a rebuild that ends in between would take away what its predecessor has.
    return inSnapshot(this.#connection, () => this.#search(query));
  }

  #search(query: SearchQuery): SearchPage {
    const { tenantId, terms } = query;
    const range = this.#range(query);
    const row = this.#serving.get(tenantId);
    return this.#page(query, range, this.#candidates(tenantId, terms, row && toIndex(row)));
  }

  #page({ tenantId, terms, limit }: SearchQuery, range: LeafRange, candidatesOf: Candidates): SearchPage {
    const found: FoundRecord[] = [];
    let steps = 0;
    for (let first = range.first; first < range.end; first = (blockOf(first) + 1) * blockLeaves) {
      const end = Math.min(range.end, (blockOf(first) + 1) * blockLeaves);
      if (steps >= maxSteps) return { found, next: first - 1 };
      for (const leafIndex of candidatesOf({ first, end })) {
        if (steps >= maxSteps || found.length === limit) return { found, next: leafIndex - 1 };
        steps += 1;
        found.push(...this.#verified(tenantId, leafIndex, terms));
      }
      steps += 1;
    }
    return { found };
  }

  /** The leaves that the query is about; a record id leaves one of them at most. */
  #range({ tenantId, terms, fromMs, toMs, after = -1 }: SearchQuery): LeafRange {
    const size = this.#rows.headOfTenant(tenantId)?.size ?? 0;
    const first = Math.max(after + 1, fromMs === undefined ? 0 : this.#firstFrom(tenantId, size, fromMs));
    const end = toMs === undefined ? size : this.#firstFrom(tenantId, size, toMs);
    const named = terms
      .filter(({ field }) => field === "record_id")
      .map(({ value }) => this.#indexOf.get(tenantId, value)?.leaf_index as number | undefined);
    if (named.includes(undefined)) return { first: 0, end: 0 };
    const leaves = named as readonly number[];
    return { first: Math.max(first, ...leaves), end: Math.min(end, ...leaves.map((leaf) => leaf + 1)) };
  }

  /** Looks into a block of the index; where there is none, or nothing to look for, every leaf is a candidate. */
  #candidates(tenantId: TenantId, terms: readonly SearchTerm[], index: IndexGeneration | undefined): Candidates {
    if (index === undefined) return everyLeaf;
    const { generation, filledTo } = index;
    const [driving, ...others] = indexedOf(terms).toSorted(bySelectivity);
    if (driving === undefined) return everyLeaf;
    const decision =
      driving.field === "decision_id" ? this.#indexedLeaf(tenantId, driving.value, generation) : undefined;
    const stored = (term: SearchTerm) => this.#terms.of(index.key, term);
    const drivingTerm = stored(driving);
    const otherTerms = others.map(stored);
    return ({ first, end }) => {
      const has = (leaf: number) => (term: Uint8Array) =>
        this.#segments.leavesOf(tenantId, generation, term, { first: leaf, end: leaf + 1 }).length > 0;
      const indexed = this.#segments
        .leavesOf(tenantId, generation, drivingTerm, { first, end })
        .filter((leaf) => otherTerms.every(has(leaf)));
      const waiting = everyLeaf({ first: Math.max(first, filledTo), end });
      return withDecision([...indexed, ...waiting], decision, { first, end });
    };
  }

  /** The leaf of a record of which the index has anything. */
  #indexedLeaf(tenantId: TenantId, recordId: string, generation: number): number | undefined {
    const leaf = this.#indexOf.get(tenantId, recordId)?.leaf_index as number | undefined;
    if (leaf === undefined) return undefined;
    const rows = this.#segments.rowsOf(tenantId, generation, { first: leaf, end: leaf + 1 });
    return rows.next().done === false ? leaf : undefined;
  }

  /** The record, if it has the terms. What was erased has none but its id. */
  #verified(tenantId: TenantId, leafIndex: number, terms: readonly SearchTerm[]): readonly FoundRecord[] {
    const row = this.#entryAt(tenantId, leafIndex);
    const leaf = readLeaf(`leaf ${leafIndex}`, row.leaf);
    const { record_id: recordId, kind, recorded_at: recordedAt } = leaf;
    const members = { leafIndex, recordId, kind, recordedAt };
    if (row.opening === null) {
      const isFound = terms.every(({ field, value }) => field === "record_id" && value === recordId);
      return isFound ? [{ ...members, erased: true }] : [];
    }
    const isFound =
      terms.every(({ field }) => field === "record_id") ||
      hasTerms(openStoredRecord(`record ${recordId}`, row.leaf, row.sealed, row.opening), terms);
    return isFound ? [{ ...members, erased: false }] : [];
  }

  /** The index of the first leaf from a moment on. Times never go back within a log. */
  #firstFrom(tenantId: TenantId, size: number, fromMs: number): number {
    let [low, high] = [0, size];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const { recorded_at } = readLeaf(`leaf ${middle}`, this.#entryAt(tenantId, middle).leaf);
      if (Date.parse(recorded_at) < fromMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #entryAt(tenantId: TenantId, leafIndex: number): EntryRow {
    const row = this.#entry.get(tenantId, leafIndex);
    if (row === undefined) throw new DamagedError(`leaf ${leafIndex} is missing`);
    return row as unknown as EntryRow;
  }
}

interface EntryRow {
  readonly leaf: Uint8Array;
  readonly sealed: Uint8Array;
  /** Null where the record was erased. */
  readonly opening: Uint8Array | null;
}

function everyLeaf({ first, end }: LeafRange): readonly number[] {
  return Array.from({ length: Math.max(0, end - first) }, (_, position) => first + position);
}

/** What fewer records have comes first: `searchFields` is in this order. */
function bySelectivity(one: SearchTerm, other: SearchTerm): number {
  return searchFields.indexOf(one.field) - searchFields.indexOf(other.field);
}
