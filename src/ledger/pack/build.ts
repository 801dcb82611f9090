/** Creates packs. */
import type { LogState } from "../ports/store.ts";
import { parseLeaf } from "../record/leaf.ts";
import { readErasure } from "../record/operator-records.ts";
import { entryAt, erasuresOf, everyFound, findLeaves, openRecord, type PackSource } from "./found.ts";
import { isTimeRange, type PackSelection, type TimeRange } from "./selection.ts";
import { type PackRequest, PackWriter, type Shown } from "./writer.ts";

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
  const { head, selection } = request;
  const writer = new PackWriter(source, request);
  yield writer.header();
  const shown = isTimeRange(selection) ? rangeEntries(source, head, selection) : foundEntries(source, head, selection);
  for await (const entry of shown) {
    yield* await writer.entry(entry);
    onEntry(entry.entry.leafIndex);
  }
  if (writer.newest !== head.size - 1) {
    yield* await writer.entry({ entry: await entryAt(source, head, head.size - 1), shows: "leaf" });
    onEntry(head.size - 1);
  }
  yield writer.end();
}

async function* foundEntries(
  source: PackSource,
  head: LogState,
  selection: Exclude<PackSelection, TimeRange>,
): AsyncGenerator<Shown> {
  for (const leafIndex of await findLeaves(source, head, selection))
    yield { entry: await entryAt(source, head, leafIndex), shows: "record" };
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
  for await (const { leafIndex } of everyFound(source, head, undefined, { fromMs: Date.parse(from), limit: 1 }))
    return leafIndex;
  return head.size;
}
