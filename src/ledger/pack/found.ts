/** Finds the leaves of a pack by value. */
import type { StoreArchive, StoredEntry } from "../ports/archive.ts";
import type { StoredRecord } from "../ports/record.ts";
import { type FoundRecord, maxSearchLimit, type SearchField, type SearchQuery } from "../ports/search.ts";
import type { LogState } from "../ports/store.ts";
import { parseLeaf } from "../record/leaf.ts";
import { readErasure } from "../record/operator-records.ts";
import { open } from "../record/sealing.ts";
import { PackError } from "./format.ts";
import { decisionOf, maxLinkedRecords } from "./item-check.ts";
import { isLinked, type PackField } from "./selection.ts";

/** The store of a pack. It must be a snapshot, as a `StoreArchive` is. */
export type PackSource = Pick<StoreArchive, "entries" | "log" | "policyRevision" | "search">;

/**
 * Indices of the leaves of the selection, in order: records with the value; for linked selections, the decisions that
 * these cite and everything that cites those, but no further; and the erasures of erased ones. Rejects with a PackError
 * if nothing is found, or too much is linked.
 */
export async function findLeaves(
  source: PackSource,
  head: LogState,
  selection: { readonly field: PackField; readonly value: string },
): Promise<readonly number[]> {
  const leaves = new Set<number>();
  const erased = new Map<string, number>();
  const decisions = new Set<string>();
  const take = ({ leafIndex, recordId, erased: isErased }: FoundRecord) => {
    leaves.add(leafIndex);
    if (isErased) erased.set(recordId, leafIndex);
  };
  const followed = isLinked(selection);
  for await (const found of everyFound(source, head, selection)) {
    take(found);
    if (!followed || found.erased) continue;
    const decision = decisionOf(await recordAt(source, head, found.leafIndex));
    if (decision !== undefined) decisions.add(decision);
  }
  if (selection.field === "decision_id") decisions.add(selection.value);
  for (const value of decisions) {
    // By id too: an erased decision can only be found by its id.
    for await (const found of everyFound(source, head, { field: "record_id", value })) take(found);
    for await (const found of everyFound(source, head, { field: "decision_id", value })) take(found);
    if (leaves.size > maxLinkedRecords)
      throw new PackError(`more than ${maxLinkedRecords} records are linked: choose a time range`);
  }
  if (leaves.size === 0) throw new PackError("nothing is found");
  if (erased.size > 0)
    for await (const { leafIndex } of erasuresOf(source, head, Math.min(...erased.values()), new Set(erased.keys())))
      leaves.add(leafIndex);
  return [...leaves].sort((a, b) => a - b);
}

/** Pages of a search, one after the other, without leaves beyond the packed head. */
export async function* everyFound(
  source: PackSource,
  { tenantId, size }: LogState,
  term: { readonly field: SearchField; readonly value: string } | undefined,
  query: Partial<SearchQuery> = {},
): AsyncGenerator<FoundRecord> {
  const terms = term === undefined ? [] : [term];
  let after: number | undefined;
  do {
    const start = after === undefined ? {} : { after };
    const { found, next } = await source.search({ tenantId, terms, limit: maxSearchLimit, ...query, ...start });
    yield* found.filter(({ leafIndex }) => leafIndex < size);
    after = next;
  } while (after !== undefined);
}

/**
 * The erasures, from a leaf on, of the records with these ids, which are removed when found; the walk ends with the
 * last of them. Rejects with a PackError if one has none: it was lost.
 */
export async function* erasuresOf(
  source: PackSource,
  head: LogState,
  first: number,
  recordIds: Set<string>,
): AsyncGenerator<StoredEntry> {
  if (recordIds.size === 0) return;
  for await (const entry of source.entries(head, first, head.size)) {
    if (parseLeaf(entry.leaf).kind !== "erasure") continue;
    const said = readErasure(openRecord(entry));
    if (said === undefined || !recordIds.delete(said.recordId)) continue;
    yield entry;
    if (recordIds.size === 0) return;
  }
  throw new PackError(`the record ${[...recordIds][0]} cannot be opened, and no leaf erased it: verify the log`);
}

async function recordAt(source: PackSource, head: LogState, leafIndex: number): Promise<StoredRecord> {
  return openRecord(await entryAt(source, head, leafIndex));
}

/** Rejects with a PackError if the log has no such leaf. */
export async function entryAt(source: PackSource, head: LogState, leafIndex: number): Promise<StoredEntry> {
  for await (const entry of source.entries(head, leafIndex, leafIndex + 1)) return entry;
  throw new PackError(`leaf ${leafIndex} is missing from the store: verify the log`);
}

/** The record of an entry that was not erased. Throws a PackError if it does not verify. */
export function openRecord(entry: StoredEntry): StoredRecord {
  return JSON.parse(Buffer.from(openBytes(entry)).toString("utf8")) as StoredRecord;
}

/** Bytes of the record of an entry that was not erased. Throws a PackError if it does not verify. */
export function openBytes({ leafIndex, leaf, sealed, opening }: StoredEntry): Uint8Array {
  try {
    return open(sealed, opening ?? new Uint8Array(0), parseLeaf(leaf).commitment);
  } catch (cause) {
    throw new PackError(`leaf ${leafIndex} does not open its record: verify the log`, { cause });
  }
}
