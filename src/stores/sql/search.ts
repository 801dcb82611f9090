/** Finds records by their terms and their time. */
import type { TenantId } from "../../base/ids.ts";
import {
  type FoundRecord,
  type SearchPage,
  type SearchQuery,
  type SearchTerm,
  searchFields,
} from "../../ledger/ports/search.ts";
import {
  blockLeaves,
  blockOf,
  indexedOf,
  type LeafRange,
  StoredTerms,
  withDecision,
} from "../../ledger/search/search-index.ts";
import { hasTerms } from "../../ledger/search/search-terms.ts";
import { DamagedError } from "../files/errors.ts";
import { headOfTenant, visibleOpening } from "./log-rows.ts";
import type { Queries, Row, Statement } from "./queries.ts";
import type { IndexGeneration } from "./search-backlog.ts";
import { indexOf } from "./search-index.ts";
import { leavesInSegments, rowsInSegments } from "./search-segments.ts";
import { openStoredRecord, readLeaf } from "./stored-record.ts";

/** A page ends after so many records, or blocks of the index, found or not: about 100 ms. */
const maxSteps = 4_096;
/** Steps of a block with segments; its bytes may count as more. */
const stepsOfSegments = 4;
const bytesOfStep = 25_000;
/** Blocks of one read of the index, and records of one read. */
const blocksEach = 64;
const recordsEach = 256;

const entriesAt: Statement = {
  name: "entries_at",
  text: `SELECT entries.leaf_index, leaf, sealed, ${visibleOpening}
          WHERE tenant_id = $1 AND entries.leaf_index = ANY ($2::bigint[])`,
};
const leafAt: Statement = {
  name: "leaf_at",
  text: "SELECT leaf FROM entries WHERE tenant_id = $1 AND leaf_index = $2",
};
const indexOfRecord: Statement = {
  name: "index_of_record",
  text: "SELECT leaf_index FROM entries WHERE tenant_id = $1 AND record_id = $2",
};
/** Result of reading the index. */
interface Look {
  /** Indices of leaves of the range whose records may have all of the terms, in order. */
  readonly leaves: readonly number[];
  /** Steps that the read took. */
  readonly steps: number;
}
type Candidates = (range: LeafRange) => Promise<Look>;

/**
 * Returns a page of results; empty if the tenant has no log. Must be called in one snapshot. Index results are verified
 * against the record; without an index every record is read: slow, and correct. Rejects with `DamagedError` if a record
 * on the way does not verify.
 */
export async function searchRecords(queries: Queries, query: SearchQuery): Promise<SearchPage> {
  const { tenantId, terms } = query;
  const range = await rangeOf(queries, query);
  const index = await indexOf(queries, tenantId);
  return pageOf(queries, query, range, await candidatesIn(queries, tenantId, terms, index));
}

async function pageOf(
  queries: Queries,
  { tenantId, terms, limit }: SearchQuery,
  range: LeafRange,
  candidatesOf: Candidates,
): Promise<SearchPage> {
  const found: FoundRecord[] = [];
  let steps = 0;
  for (let { first } = range; first < range.end; ) {
    if (steps >= maxSteps) return { found, next: first - 1 };
    const end = Math.min(range.end, (blockOf(first) + blocksEach) * blockLeaves);
    const look = await candidatesOf({ first, end });
    for (let at = 0; at < look.leaves.length; at += recordsEach) {
      const part = look.leaves.slice(at, at + recordsEach);
      const entries = await readEntries(queries, tenantId, part);
      for (const leafIndex of part) {
        if (steps >= maxSteps || found.length === limit) return { found, next: leafIndex - 1 };
        steps += 1;
        found.push(...verified(leafIndex, entries.get(leafIndex), terms));
      }
    }
    steps += look.steps;
    first = end;
  }
  return { found };
}

/** Returns the range of the query's leaves; a record id leaves one at most. */
async function rangeOf(queries: Queries, query: SearchQuery): Promise<LeafRange> {
  const { tenantId, terms, fromMs, toMs, after = -1 } = query;
  const size = (await headOfTenant(queries, tenantId))?.size ?? 0;
  let first = Math.max(after + 1, fromMs === undefined ? 0 : await firstFrom(queries, tenantId, size, fromMs));
  let end = toMs === undefined ? size : await firstFrom(queries, tenantId, size, toMs);
  for (const { value } of terms.filter(({ field }) => field === "record_id")) {
    const [row] = (await queries.query(indexOfRecord, [tenantId, value])).rows;
    const leafIndex = (row?.leaf_index as number | undefined) ?? -1;
    first = Math.max(first, leafIndex);
    end = Math.min(end, leafIndex + 1);
  }
  return { first, end };
}

/** Reads the index. Without an index or terms, every leaf is a candidate. */
async function candidatesIn(
  queries: Queries,
  tenantId: TenantId,
  terms: readonly SearchTerm[],
  index: IndexGeneration | undefined,
): Promise<Candidates> {
  if (index === undefined) return lookAtAll;
  const { generation, filledTo } = index;
  const [driving, ...others] = indexedOf(terms).toSorted(bySelectivity);
  if (driving === undefined) return lookAtAll;
  const decision = driving.field === "decision_id" ? await leafOf(queries, tenantId, driving.value, index) : undefined;
  const stored = new StoredTerms();
  const store = (term: SearchTerm) => stored.of(index.key, term);
  const wanted = [store(driving), ...others.map(store)] as const;
  return async ({ first, end }) => {
    const inSegments = await leavesInSegments(queries, tenantId, { first, end, generation }, wanted);
    const leaves = [...inSegments.leaves, ...everyLeaf({ first: Math.max(first, filledTo), end })];
    return {
      leaves: withDecision(leaves, decision, { first, end }),
      steps: Math.max(blocksIn({ first, end }) * stepsOfSegments, Math.ceil(inSegments.bytes / bytesOfStep)),
    };
  };
}

/** Returns the leaf of a record, if the index has one. */
async function leafOf(
  queries: Queries,
  tenantId: TenantId,
  recordId: string,
  { generation }: IndexGeneration,
): Promise<number | undefined> {
  const [row] = (await queries.query(indexOfRecord, [tenantId, recordId])).rows;
  const first = row?.leaf_index as number | undefined;
  if (first === undefined) return undefined;
  const terms = await rowsInSegments(queries, tenantId, { first, end: first + 1, generation });
  return terms.length === 0 ? undefined : first;
}

async function readEntries(
  queries: Queries,
  tenantId: TenantId,
  leafIndices: readonly number[],
): Promise<ReadonlyMap<number, Row>> {
  const { rows } = await queries.query(entriesAt, [tenantId, leafIndices]);
  return new Map(rows.map((row) => [row.leaf_index as number, row]));
}

/** Returns the record if it has the terms. An erased record has only its id. */
function verified(leafIndex: number, row: Row | undefined, terms: readonly SearchTerm[]): readonly FoundRecord[] {
  if (row === undefined) throw new DamagedError(`leaf ${leafIndex} is missing`);
  const leaf = row.leaf as Uint8Array;
  const { record_id: recordId, kind, recorded_at: recordedAt } = readLeaf(`leaf ${leafIndex}`, leaf);
  const members = { leafIndex, recordId, kind, recordedAt };
  if (row.opening === null) {
    const isFound = terms.every(({ field, value }) => field === "record_id" && value === recordId);
    return isFound ? [{ ...members, erased: true }] : [];
  }
  const record = () =>
    openStoredRecord(`record ${recordId}`, leaf, row.sealed as Uint8Array, row.opening as Uint8Array);
  const isFound = terms.every(({ field }) => field === "record_id") || hasTerms(record(), terms);
  return isFound ? [{ ...members, erased: false }] : [];
}

/** Returns the index of the first leaf from a time on. Times never go back within a log. */
async function firstFrom(queries: Queries, tenantId: TenantId, size: number, fromMs: number): Promise<number> {
  let [low, high] = [0, size];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [row] = (await queries.query(leafAt, [tenantId, middle])).rows;
    if (row === undefined) throw new DamagedError(`leaf ${middle} is missing`);
    const { recorded_at } = readLeaf(`leaf ${middle}`, row.leaf as Uint8Array);
    if (Date.parse(recorded_at) < fromMs) low = middle + 1;
    else high = middle;
  }
  return low;
}

async function lookAtAll(range: LeafRange): Promise<Look> {
  return { leaves: everyLeaf(range), steps: blocksIn(range) };
}

function blocksIn({ first, end }: LeafRange): number {
  return blockOf(end - 1) - blockOf(first) + 1;
}

function everyLeaf({ first, end }: LeafRange): readonly number[] {
  return Array.from({ length: Math.max(0, end - first) }, (_, position) => first + position);
}

/** The most selective first: `searchFields` is in this order. */
function bySelectivity(one: SearchTerm, other: SearchTerm): number {
  return searchFields.indexOf(one.field) - searchFields.indexOf(other.field);
}
