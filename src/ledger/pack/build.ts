/** Creates packs. */

import { createHash } from "node:crypto";
import { isCleanText } from "../../base/ids.ts";
import { parseJson } from "../../base/json.ts";
import { contentAddress, formatBase64 } from "../../base/text-forms.ts";
import type { StoreArchive, StoredEntry } from "../ports/archive.ts";
import type { StoredRecord } from "../ports/record.ts";
import type { FoundRecord, SearchQuery, SearchTerm } from "../ports/search.ts";
import type { LogState } from "../ports/store.ts";
import { parseLeaf } from "../record/leaf.ts";
import { readErasure } from "../record/operator-records.ts";
import { open } from "../record/sealing.ts";
import { everyFound } from "../search/search-query.ts";
import { leafHash, sameHash } from "../tlog/tree.ts";
import { decisionOf, maxLinkedRecords } from "./entry-checks.ts";
import {
  formatLine,
  isLinked,
  isOfValue,
  maxLineBytes,
  PackError,
  type PackLine,
  type PackSelection,
  packFormat,
  selectionMembers,
  type TimeRange,
  type ValueSelection,
} from "./format.ts";
import { GrowingTree, subtreeReader, subtreesBetween } from "./subtrees.ts";

/**
 * Yields the lines of a pack, each with its newline. Memory is constant for a time range; for other selections it holds
 * the indices. Rejects with a PackError if nothing is found, or if the store contradicts its log; the lines so far are
 * then not a pack.
 *
 * @param onEntry called with each entry's index
 */
export async function* packLines(
  source: PackSource,
  request: PackRequest,
  onEntry: (leafIndex: number) => void = () => {},
): AsyncGenerator<string> {
  const { head, checkpoint, selection, nowMs } = request;
  const digest = createHash("sha256");
  const written = (line: PackLine) => {
    const text = formatLine(line);
    digest.update(text, "utf8");
    return text;
  };
  yield written({
    type: "header",
    format: packFormat,
    checkpoint,
    made_at: new Date(nowMs).toISOString(),
    selection: selectionMembers(selection),
    tenant_id: head.tenantId,
  });
  const subtree = subtreeReader(source, head);
  const tree = new GrowingTree();
  const revisions = new Set<string>();
  let entries = 0;
  for await (const { entry, shows } of shownEntries(source, head, selection)) {
    const { leafIndex } = entry;
    const leaf = textOf(entry.leaf, leafIndex);
    const revision = shows === "leaf" ? undefined : parseLeaf(entry.leaf).policy_revision;
    if (revision !== undefined && !revisions.has(revision)) {
      revisions.add(revision);
      yield written(await policyLine(source, request, revision));
    }
    const gap: string[] = [];
    for (const between of subtreesBetween(tree.size, leafIndex)) {
      const hash = await subtree(between);
      gap.push(formatBase64(hash));
      tree.append(hash, between.height);
    }
    tree.append(leafHash(entry.leaf));
    entries += 1;
    const material = shows === "leaf" ? {} : materialOf(entry);
    yield written({ type: "entry", leaf_index: leafIndex, leaf, ...(gap.length > 0 && { gap }), ...material });
    onEntry(leafIndex);
  }
  if (tree.size !== head.size || !sameHash(tree.root(), head.root))
    throw new PackError("the store's leaves and tiles do not lead to the log's root: verify the log");
  yield formatLine({ type: "end", entries, sha256: digest.digest("hex") });
}

/** The entries of a selection, and the log's last leaf. */
async function* shownEntries(source: PackSource, head: LogState, selection: PackSelection): AsyncGenerator<Shown> {
  const last = head.size - 1;
  let newest = -1;
  const selected = isOfValue(selection) ? foundEntries(source, head, selection) : rangeEntries(source, head, selection);
  for await (const shown of selected) {
    newest = shown.entry.leafIndex;
    yield shown;
  }
  if (newest !== last) yield { entry: await entryAt(source, head, last), shows: "leaf" };
}

/** The records; and the leaves on both sides of each end of their time range, which show how many leaves it has. */
async function* foundEntries(source: PackSource, head: LogState, selection: ValueSelection): AsyncGenerator<Shown> {
  const records = await findLeaves(source, head, selection);
  const leaves = new Set(records);
  for (const end of [selection.from, selection.to]) {
    if (end === undefined) continue;
    const first = await firstLeafFrom(source, head, end);
    if (first > 0) leaves.add(first - 1);
    if (first < head.size) leaves.add(first);
  }
  for (const leafIndex of [...leaves].sort((a, b) => a - b))
    yield { entry: await entryAt(source, head, leafIndex), shows: records.has(leafIndex) ? "record" : "leaf" };
}

/** The leaf before the range, its records, the leaf after it, and the erasures of its erased records. */
async function* rangeEntries(source: PackSource, head: LogState, range: TimeRange): AsyncGenerator<Shown> {
  const { from, to } = range;
  const first = from === undefined ? 0 : await firstLeafFrom(source, head, from);
  const erased = new Set<string>();
  let next = Math.max(0, first - 1);
  for await (const entry of source.entries(head, next, head.size)) {
    const { recorded_at, record_id, kind } = parseLeaf(entry.leaf);
    const isBefore = from !== undefined && recorded_at < from;
    const isAfter = to !== undefined && recorded_at >= to;
    const isInRange = !isBefore && !isAfter;
    if (isInRange && entry.opening === undefined) erased.add(record_id);
    const erases =
      kind === "erasure" && erased.size > 0 && erased.delete(readErasure(openRecord(entry))?.recordId ?? "");
    yield { entry, shows: isInRange || erases ? "record" : "leaf" };
    next = entry.leafIndex + 1;
    if (isAfter) break;
  }
  for await (const entry of erasuresOf(source, head, next, erased)) yield { entry, shows: "record" };
}

/** Index of the first leaf at or after that time; the size of the log if there is none. */
async function firstLeafFrom(source: PackSource, head: LogState, from: string): Promise<number> {
  const { found } = await source.search({ tenantId: head.tenantId, terms: [], fromMs: Date.parse(from), limit: 1 });
  return Math.min(found[0]?.leafIndex ?? head.size, head.size);
}

interface PackRequest {
  /** The packed state; the source must hold it. */
  readonly head: LogState;
  /** Its signed checkpoint. */
  readonly checkpoint: string;
  readonly selection: PackSelection;
  /** Milliseconds since the Unix epoch. */
  readonly nowMs: number;
  /** Why a policy revision must not be shown; undefined if it may. */
  readonly hides?: (revision: string, content: string) => string | undefined;
  /** Called for each policy revision whose text is left out, with the reason. */
  readonly onUnshown?: (revision: string, reason: string) => void;
}

/** An entry, and whether more than its leaf is shown. */
interface Shown {
  readonly entry: StoredEntry;
  readonly shows: "record" | "leaf";
}

/** The line of a policy revision. A text that verifiers would refuse is left out. */
async function policyLine(source: PackSource, { hides, onUnshown }: PackRequest, revision: string): Promise<PackLine> {
  const content = await source.policyRevision(revision);
  const problem =
    content === undefined
      ? "the store does not have it"
      : (textProblem(content, revision) ?? hides?.(revision, content));
  if (problem !== undefined) onUnshown?.(revision, problem);
  const isShown = content !== undefined && problem === undefined;
  return { type: "policy", revision, ...(isShown && { content }) };
}

function textProblem(content: string, revision: string): string | undefined {
  if (contentAddress(content) !== revision) return "the text in the store is not that of the revision: verify the log";
  if (!isCleanText(content)) return "the text cannot be written in canonical JSON";
  // JSON escapes make it longer in a line.
  const lineBytes = Buffer.byteLength(JSON.stringify({ content, revision, type: "policy" })) + 1;
  return lineBytes > maxLineBytes ? "the text is too long for a pack" : undefined;
}

function materialOf(entry: StoredEntry): { readonly opening: string; readonly record: string } | { erased: true } {
  if (entry.opening === undefined) return { erased: true };
  return { opening: formatBase64(entry.opening), record: textOf(openBytes(entry), entry.leafIndex) };
}

/** The bytes as text, exactly. */
function textOf(bytes: Uint8Array, leafIndex: number): string {
  const text = Buffer.from(bytes).toString("utf8");
  if (Buffer.compare(Buffer.from(text, "utf8"), bytes) !== 0)
    throw new PackError(`leaf ${leafIndex} or its record is not UTF-8: verify the log`);
  return text;
}

// Finds the leaves of a pack by value.

/** The store of a pack. It must be a snapshot, as a `StoreArchive` is. */
export type PackSource = Pick<StoreArchive, "entries" | "storedTile" | "policyRevision" | "search">;

/**
 * Indices of the leaves of the selection: records with the value, and of the time range if there is one; for linked
 * selections, the decisions that these cite and everything that cites those, of any time, but no further; and the
 * erasures of erased ones. Rejects with a PackError if nothing is found, or too much is linked.
 */
async function findLeaves(source: PackSource, head: LogState, selection: ValueSelection): Promise<ReadonlySet<number>> {
  const leaves = new Set<number>();
  const erased = new Map<string, number>();
  const decisions = new Set<string>();
  const take = ({ leafIndex, recordId, erased: isErased }: FoundRecord) => {
    leaves.add(leafIndex);
    if (isErased) erased.set(recordId, leafIndex);
  };
  const { field, value, from, to } = selection;
  const followed = isLinked(selection);
  const times = {
    ...(from !== undefined && { fromMs: Date.parse(from) }),
    ...(to !== undefined && { toMs: Date.parse(to) }),
  };
  for await (const found of foundWith(source, head, { field, value }, times)) {
    take(found);
    if (!followed || found.erased) continue;
    const decision = decisionOf(openRecord(await entryAt(source, head, found.leafIndex)));
    if (decision !== undefined) decisions.add(decision);
  }
  if (field === "decision_id") decisions.add(value);
  for (const id of decisions) {
    // By id too: an erased decision can only be found by its id.
    for await (const found of foundWith(source, head, { field: "record_id", value: id })) take(found);
    for await (const found of foundWith(source, head, { field: "decision_id", value: id })) take(found);
    if (leaves.size > maxLinkedRecords)
      throw new PackError(`more than ${maxLinkedRecords} records are linked: choose a time range`);
  }
  if (leaves.size === 0) throw new PackError("nothing is found");
  if (erased.size > 0)
    for await (const { leafIndex } of erasuresOf(source, head, Math.min(...erased.values()), new Set(erased.keys())))
      leaves.add(leafIndex);
  return leaves;
}

/** The records with a term, without leaves beyond the packed head. */
async function* foundWith(
  source: PackSource,
  { tenantId, size }: LogState,
  term: SearchTerm,
  times: Pick<SearchQuery, "fromMs" | "toMs"> = {},
): AsyncGenerator<FoundRecord> {
  for await (const found of everyFound(source, { tenantId, terms: [term], ...times }))
    if (found.leafIndex < size) yield found;
}

/**
 * The erasures, from a leaf on, of the records with these ids, which are removed when found; the walk ends with the
 * last of them. Rejects with a PackError if one has none: it was lost.
 */
async function* erasuresOf(
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

/** Rejects with a PackError if the log has no such leaf. */
async function entryAt(source: PackSource, head: LogState, leafIndex: number): Promise<StoredEntry> {
  for await (const entry of source.entries(head, leafIndex, leafIndex + 1)) return entry;
  throw new PackError(`leaf ${leafIndex} is missing from the store: verify the log`);
}

/** The record of an entry that was not erased. Throws a PackError if it does not verify. */
function openRecord(entry: StoredEntry): StoredRecord {
  return parseJson(Buffer.from(openBytes(entry)).toString("utf8")) as StoredRecord;
}

/** Bytes of the record of an entry that was not erased. Throws a PackError if it does not verify. */
function openBytes({ leafIndex, leaf, sealed, opening }: StoredEntry): Uint8Array {
  try {
    return open(sealed, opening ?? new Uint8Array(0), parseLeaf(leaf).commitment);
  } catch (cause) {
    throw new PackError(`leaf ${leafIndex} does not open its record: verify the log`, { cause });
  }
}
