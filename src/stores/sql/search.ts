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
import { isIdPrefix } from "../../ledger/search/search-query.ts";
import { hasTerms, mayHaveTerms } from "../../ledger/search/search-terms.ts";
import { ArrivedEvidence, countedValues, countOf, summaryOf } from "../../ledger/search/summary.ts";
import { DamagedError } from "../files/errors.ts";
import { headOfTenant, visibleOpening } from "./log-rows.ts";
import type { Queries, Row } from "./queries.ts";
import type { SearchIndex } from "./search-backlog.ts";
import { indexOf, leavesInSegments, leavesOfAny, rowsInSegments } from "./search-segments.ts";
import { openStoredRecord, readLeaf } from "./stored-record.ts";

/** A page ends after so many records, or blocks of the index, found or not: about 100 ms. */
const maxSteps = 2_048;
/** Steps of a block with segments; its bytes may count as more. */
const stepsOfSegments = 4;
const bytesOfStep = 25_000;
/** Leaves after a decision that usually have its evidence; and most leaves and records of a page's search for evidence. */
const nearLeaves = 2 * blockLeaves;
const maxEvidenceLeaves = 256 * blockLeaves;
const maxEvidenceRecords = 4_096;
/** Blocks of one read of the index, and records of one read. */
const blocksEach = 64;
const recordsEach = 256;

const entriesAt = `SELECT entries.leaf_index, leaf, sealed, ${visibleOpening}
   WHERE tenant_id = $1 AND entries.leaf_index = ANY ($2::bigint[])`;
const leafAt = "SELECT leaf FROM entries WHERE tenant_id = $1 AND leaf_index = $2";
const indexOfRecord = "SELECT leaf_index FROM entries WHERE tenant_id = $1 AND record_id = $2";
/** SQLite keeps the order of a cross join: the few erasures first, not every entry. */
const lastErasedOf = `SELECT max(erasures.leaf_index) AS leaf_index FROM erasures CROSS JOIN entries
   WHERE erasures.tenant_id = $1 AND entries.tenant_id = erasures.tenant_id
     AND entries.record_id = erasures.record_id AND position($2::bytea IN leaf) > 0`;
/** Kinds of records that cite decisions. */
const citing = ["evidence", "registration"] as const;
/** Two show that a prefix is not unique. */
const idsFrom = "SELECT record_id FROM entries WHERE tenant_id = $1 AND record_id >= $2 ORDER BY record_id LIMIT 2";
/** A log, and its index if there is one. */
interface IndexedLog {
  readonly queries: Queries;
  readonly tenantId: TenantId;
  readonly index: SearchIndex | undefined;
  readonly size: number;
}
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
export async function searchRecords(queries: Queries, asked: SearchQuery): Promise<SearchPage> {
  const { tenantId } = asked;
  const size = Math.min((await headOfTenant(queries, tenantId))?.size ?? 0, asked.size ?? Number.MAX_SAFE_INTEGER);
  const log = { queries, tenantId, index: await indexOf(queries, tenantId), size };
  const terms = await withWholeIds(log, asked.terms);
  if (typeof terms === "string") return { found: [], size, ambiguous: terms };
  const query = { ...asked, terms };
  const page = await pageOf(log, query, await rangeOf(log, query), await candidatesIn(log, terms));
  return { ...page, size, found: query.summary === true ? await withEvidence(log, page.found) : page.found };
}

/** Completes prefixes of record ids. Returns the prefix instead if several records have it. */
async function withWholeIds(
  { queries, tenantId }: IndexedLog,
  terms: readonly SearchTerm[],
): Promise<readonly SearchTerm[] | string> {
  const whole: SearchTerm[] = [];
  for (const { field, value } of terms) {
    const isCut = (field === "record_id" || field === "decision_id") && isIdPrefix(value);
    const { rows } = isCut ? await queries.query(idsFrom, [tenantId, value]) : { rows: [] };
    const [id, other] = rows.map(({ record_id }) => record_id as string).filter((each) => each.startsWith(value));
    if (other !== undefined) return value;
    whole.push({ field, value: id ?? value });
  }
  return whole;
}

async function pageOf(
  log: IndexedLog,
  { terms, limit, newest = false, summary = false, countBy }: SearchQuery,
  range: LeafRange,
  candidatesOf: Candidates,
): Promise<Omit<SearchPage, "size">> {
  const found: FoundRecord[] = [];
  const counted: (readonly string[])[] = [];
  const pageTo = (next?: number) => ({
    found,
    ...(countBy !== undefined && { counted: countOf(counted) }),
    ...(next !== undefined && { next }),
  });
  const isOpened = summary || (countBy !== undefined && countBy !== "day");
  let steps = 0;
  for (let rest = range; rest.first < rest.end; ) {
    if (steps >= maxSteps) return pageTo(newest ? rest.end : rest.first - 1);
    const part = newest ? lastPart(rest) : firstPart(rest);
    const look = await candidatesOf(part);
    const ordered = newest ? look.leaves.toReversed() : look.leaves;
    const leaves = ordered.slice(0, maxSteps - steps);
    const before = (leafIndex: number) => pageTo(newest ? leafIndex + 1 : leafIndex - 1);
    for await (const [leafIndex, row] of entriesOf(log, leaves)) {
      if (found.length === limit) return before(leafIndex);
      const match = verified(leafIndex, row, terms, isOpened);
      if (match === undefined) continue;
      const { place, record } = match;
      if (countBy !== undefined) counted.push(countedValues(countBy, place, record));
      else found.push(summary && record !== undefined ? { ...place, summary: summaryOf(record) } : place);
    }
    const unread = ordered[leaves.length];
    if (unread !== undefined) return before(unread);
    steps += leaves.length + look.steps;
    rest = newest ? { first: rest.first, end: part.first } : { first: part.end, end: rest.end };
  }
  return pageTo();
}

/** The part of a range that one read of the index covers. */
function firstPart({ first, end }: LeafRange): LeafRange {
  return { first, end: Math.min(end, (blockOf(first) + blocksEach) * blockLeaves) };
}

function lastPart({ first, end }: LeafRange): LeafRange {
  return { first: Math.max(first, (blockOf(end - 1) + 1 - blocksEach) * blockLeaves), end };
}

/** Returns the range of leaves that the query covers: at most one leaf if it has a record id. */
async function rangeOf(log: IndexedLog, query: SearchQuery): Promise<LeafRange> {
  const { terms, fromMs, toMs, after, newest } = query;
  let first = fromMs === undefined ? 0 : await firstFrom(log, fromMs);
  let end = toMs === undefined ? log.size : await firstFrom(log, toMs);
  if (after !== undefined && newest === true) end = Math.min(end, after);
  else if (after !== undefined) first = Math.max(first, after + 1);
  for (const { value } of terms.filter(({ field }) => field === "record_id")) {
    const leafIndex = (await leafOf(log, value)) ?? -1;
    first = Math.max(first, leafIndex);
    end = Math.min(end, leafIndex + 1);
  }
  return { first, end };
}

/** Reads the index. Without an index or terms, every leaf is a candidate. */
async function candidatesIn(log: IndexedLog, terms: readonly SearchTerm[]): Promise<Candidates> {
  const { queries, tenantId, index } = log;
  if (index === undefined) return lookAtAll;
  const [driving, ...others] = indexedOf(terms).toSorted(
    // The most selective first: `searchFields` is in this order.
    (one, other) => searchFields.indexOf(one.field) - searchFields.indexOf(other.field),
  );
  if (driving === undefined) return lookAtAll;
  const decision = driving.field === "decision_id" ? await indexedLeafOf(log, driving.value) : undefined;
  const stored = new StoredTerms().under(index.key);
  const wanted = [stored(driving), ...others.map(stored)] as const;
  return async ({ first, end }) => {
    const inSegments = await leavesInSegments(queries, tenantId, { first, end }, wanted);
    const leaves = [...inSegments.leaves, ...everyLeaf({ first: Math.max(first, index.filledTo), end })];
    return {
      leaves: withDecision(leaves, decision, { first, end }),
      steps: Math.max(blocksIn({ first, end }) * stepsOfSegments, Math.ceil(inSegments.bytes / bytesOfStep)),
    };
  };
}

/** Returns the leaf of a record, if the index has one: a damaged record has none. */
async function indexedLeafOf(log: IndexedLog, recordId: string): Promise<number | undefined> {
  const first = await leafOf(log, recordId);
  if (first === undefined) return undefined;
  const terms = await rowsInSegments(log.queries, log.tenantId, { first, end: first + 1 });
  return terms.length === 0 ? undefined : first;
}

async function leafOf({ queries, tenantId }: IndexedLog, recordId: string): Promise<number | undefined> {
  return (await queries.query(indexOfRecord, [tenantId, recordId])).rows[0]?.leaf_index as number | undefined;
}

/** Reads entries in parts: from the second on, the next one while the caller works on one. */
async function* entriesOf(
  { queries, tenantId }: IndexedLog,
  leaves: readonly number[],
): AsyncGenerator<readonly [number, Row | undefined]> {
  const read = async (at: number) => {
    const { rows } = await queries.query(entriesAt, [tenantId, leaves.slice(at, at + recordsEach)]);
    return new Map(rows.map((row) => [row.leaf_index as number, row]));
  };
  let next: ReturnType<typeof read> | undefined;
  for (let at = 0; at < leaves.length; at += recordsEach) {
    const entries = await (next ?? read(at));
    next = at > 0 && at + recordsEach < leaves.length ? read(at + recordsEach) : undefined;
    // The caller may end before it reads them.
    next?.catch(() => {});
    for (const leafIndex of leaves.slice(at, at + recordsEach)) yield [leafIndex, entries.get(leafIndex)];
  }
}

/** Adds to each allowed decision what arrived of its evidence. */
async function withEvidence(log: IndexedLog, found: readonly FoundRecord[]): Promise<readonly FoundRecord[]> {
  const { queries, tenantId } = log;
  const decisions = found.filter(({ summary }) => summary?.expects_evidence !== undefined);
  if (decisions.length === 0) return found;
  const arrived = new ArrivedEvidence();
  /** Decisions without evidence so far, in the order of the log. */
  const inOrder = decisions.toSorted((one, other) => one.leafIndex - other.leafIndex);
  const open = new Map(inOrder.map((each) => [each.recordId, each]));
  let [leavesLeft, recordsLeft, isComplete] = [maxEvidenceLeaves, maxEvidenceRecords, true];
  /** The last leaves whose records lost their citation: they were erased, or cannot be opened. */
  const lost = { evidence: -1, registration: -1 };
  for (const range of evidenceRanges(open, log.size)) {
    const leaves = await citingLeaves(log, range, [...open.keys()]);
    leavesLeft -= range.end - range.first;
    recordsLeft -= leaves.length;
    isComplete = leavesLeft >= 0 && recordsLeft >= 0;
    if (!isComplete) break;
    for await (const [leafIndex, row] of entriesOf(log, leaves)) {
      if (row === undefined) continue;
      const { place, record } = verified(leafIndex, row, [], true) ?? {};
      const kind = citing.find((one) => one === place?.kind);
      if (kind !== undefined && record !== undefined) arrived.take(kind, summaryOf(record));
      else if (kind !== undefined) lost[kind] = Math.max(lost[kind], leafIndex);
    }
    for (const [id, { summary = {} }] of open)
      if (arrived.of(id, summary, { events: false, registrations: false }) === "evidenced") open.delete(id);
  }
  for (const kind of citing) {
    const [erased] = (await queries.query(lastErasedOf, [tenantId, Buffer.from(`"kind":"${kind}"`)])).rows;
    lost[kind] = Math.max(lost[kind], (erased?.leaf_index as number | null | undefined) ?? -1);
  }
  return found.map((each) => {
    const { summary, recordId, leafIndex } = each;
    if (summary?.expects_evidence === undefined) return each;
    const isAllTaken = (kind: keyof typeof lost) => isComplete && leafIndex > lost[kind];
    const taken = { events: isAllTaken("evidence"), registrations: isAllTaken("registration") };
    const evidence = arrived.of(recordId, summary, taken);
    return { ...each, summary: { ...summary, evidence } };
  });
}

/** Ranges where evidence may be, the likely ones first. Ends when every decision has its evidence. */
function* evidenceRanges(open: ReadonlyMap<string, FoundRecord>, size: number): Generator<LeafRange> {
  const near: LeafRange[] = [];
  for (const { leafIndex } of open.values()) {
    const last = near.at(-1);
    const [first, end] = [leafIndex + 1, Math.min(size, leafIndex + 1 + nearLeaves)];
    if (last !== undefined && first <= last.end) near[near.length - 1] = { first: last.first, end };
    else near.push({ first, end });
  }
  for (const range of near) if (open.size > 0) yield* partsOf(range);
  const [oldest] = open.values();
  if (oldest !== undefined) yield* partsOf({ first: oldest.leafIndex + 1 + nearLeaves, end: size });
}

function* partsOf({ first, end }: LeafRange): Generator<LeafRange> {
  for (let part = firstPart({ first, end }); part.first < end; part = firstPart({ first: part.end, end })) yield part;
}

/** Leaves of a range that may cite one of the decisions. */
async function citingLeaves(
  { queries, tenantId, index }: IndexedLog,
  { first, end }: LeafRange,
  decisionIds: readonly string[],
): Promise<readonly number[]> {
  const filledTo = index?.filledTo ?? 0;
  const waiting = everyLeaf({ first: Math.max(first, filledTo), end });
  if (index === undefined || first >= filledTo) return waiting;
  const stored = new StoredTerms().under(index.key);
  const terms = decisionIds.map((value) => stored({ field: "decision_id", value }));
  return [...(await leavesOfAny(queries, tenantId, { first, end }, terms)), ...waiting];
}

/**
 * Returns the place of a leaf if its record has the terms, and the record unless it was erased, or is not needed. An
 * erased record has only its id.
 * @param isOpened whether the record is needed, not only its place
 */
function verified(leafIndex: number, row: Row | undefined, terms: readonly SearchTerm[], isOpened: boolean) {
  if (row === undefined) throw new DamagedError(`leaf ${leafIndex} is missing`);
  const leaf = row.leaf as Uint8Array;
  const read = readLeaf(`leaf ${leafIndex}`, leaf);
  const { record_id: recordId, kind, recorded_at: recordedAt, policy_revision: policyRevision } = read;
  const revision = policyRevision === undefined ? {} : { policyRevision };
  const place: FoundRecord = { leafIndex, recordId, kind, recordedAt, erased: row.opening === null, ...revision };
  const isById = terms.every(({ field, value }) => field === "record_id" && value === recordId);
  if (!mayHaveTerms(kind, terms)) return undefined;
  if (row.opening === null || (isById && !isOpened)) return isById ? { place, record: undefined } : undefined;
  const record = openStoredRecord(`record ${recordId}`, leaf, row.sealed as Uint8Array, row.opening as Uint8Array);
  return isById || hasTerms(record, terms) ? { place, record } : undefined;
}

/** Returns the index of the first leaf from a time on. Times never go back within a log. */
async function firstFrom({ queries, tenantId, size }: IndexedLog, fromMs: number): Promise<number> {
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
