/** Answers to bulk calls that have one receipt for all of their items, and false ones. */
import { formatBase64 } from "../../../src/base/text-forms.ts";
import { checkpointOfProof } from "../../../src/ledger/tlog/tlog-proof.ts";
import { type MemoryLog, memoryLog } from "./pack/memory-log.ts";
import { decision, evidence } from "./pack/records.ts";
import { treeOf } from "./receipt-vectors.ts";

interface RangeLeaf {
  readonly record_id: string;
  readonly leaf_index: number;
  readonly leaf_hash: string;
  readonly opening: string;
}

interface RangeItem {
  readonly outcome: string;
  readonly decision?: { readonly decision_id: string };
  readonly ingestion?: object;
  readonly leaf?: RangeLeaf;
}

interface RangeAnswer {
  readonly receipt?: {
    readonly log_origin: string;
    readonly tree_size: number;
    readonly checkpoint: string;
    readonly nodes: readonly string[];
  };
  readonly items: readonly RangeItem[];
}

export interface RangeVector {
  readonly name: string;
  readonly log_key: string;
  readonly answer: RangeAnswer;
  /** Text of the record of each item that has one, where it is to be shown too. */
  readonly records?: readonly (string | null)[];
  /** Why it must be refused; absent where it holds. */
  readonly refused?: string;
}

export function rangeVectors(): readonly RangeVector[] {
  const log = memoryLog({ name: "range" });
  for (let i = 0; i < 20; i++) log.append(i % 2 === 0 ? decision(true) : evidence("protect", {}, "success"));
  const { size } = log.head();
  const log_key = log.vkey();
  const sets = [[1], [size - 1], [0, size - 1], [8, 9, 10, 11], [5, 6, 7, 8, 9, 10], [12, 13, 14, 15], [2, 9, 17]];
  const held = [...sets, Array.from({ length: size }, (_, index) => index)].map((leaves): RangeVector => {
    const name = `leaves ${leaves.join(", ")} of ${size}`;
    return { name, log_key, answer: answerOf(log, leaves), records: leaves.map((leaf) => recordOf(log, leaf)) };
  });
  return [...held, ...changed(log)];
}

/** What a call is answered whose records stand at these places. */
function answerOf(log: MemoryLog, leaves: readonly number[]): RangeAnswer {
  const { origin, size } = log.head();
  const ascending = [...new Set(leaves)].sort((a, b) => a - b);
  const nodes = treeOf(log).multiProof(ascending).map(formatBase64);
  const checkpoint = checkpointOfProof(log.receipt(0).proof);
  return {
    receipt: { log_origin: origin, tree_size: size, checkpoint, nodes },
    items: leaves.map((leaf) => itemOf(log, leaf)),
  };
}

function itemOf(log: MemoryLog, leafIndex: number): RangeItem {
  const { record_id, leaf_index, leaf_hash, opening = "" } = log.receipt(leafIndex);
  const isDecision = JSON.parse(recordOf(log, leafIndex)).kind === "decision";
  const member = isDecision ? { decision: { decision_id: record_id } } : { ingestion: {} };
  return { outcome: "answered", ...member, leaf: { record_id, leaf_index, leaf_hash, opening } };
}

function recordOf(log: MemoryLog, leafIndex: number): string {
  return Buffer.from(log.entries[leafIndex]?.record ?? []).toString();
}

/** An answer, changed after it was given out. */
function changed(log: MemoryLog): RangeVector[] {
  const leaves = [5, 7, 8, 12];
  const good = answerOf(log, leaves);
  const records = leaves.map((leaf) => recordOf(log, leaf));
  const { receipt, items } = good as RangeAnswer & Required<Pick<RangeAnswer, "receipt">>;
  const { nodes } = receipt;
  const log_key = log.vkey();
  const ofReceipt = (change: Partial<typeof receipt>): RangeAnswer => ({ ...good, receipt: { ...receipt, ...change } });
  const ofLeaf = (place: number, change: Partial<RangeLeaf>): RangeAnswer => {
    const item = items[place] as RangeItem;
    return { ...good, items: items.with(place, { ...item, leaf: { ...(item.leaf as RangeLeaf), ...change } }) };
  };
  const [first, second] = items.map(({ leaf }) => leaf) as [RangeLeaf, RangeLeaf];
  const refusedItem: RangeItem = { outcome: "refused" };
  const stranger = memoryLog({ name: "stranger" });
  for (let i = 0; i < 20; i++) stranger.append(decision(true));
  const older = memoryLog({ name: "range" });
  for (let i = 0; i < 14; i++) older.append(i % 2 === 0 ? decision(true) : evidence("protect", {}, "success"));
  const vector = (name: string, answer: RangeAnswer, refused?: string, key = log_key): RangeVector => ({
    name,
    log_key: key,
    answer,
    ...(refused !== undefined && { refused }),
  });
  const swapped = [
    { ...items[0], leaf: { ...first, leaf_index: second.leaf_index } },
    { ...items[1], leaf: { ...second, leaf_index: first.leaf_index } },
    ...items.slice(2),
  ] as RangeItem[];
  const twin = items[3] as RangeItem;
  return [
    vector("an item that was refused has no leaf", { ...good, items: items.toSpliced(1, 0, refusedItem) }),
    vector("two items of one record", { ...good, items: [...items, twin] }),
    vector("items in another order", { ...good, items: items.toReversed() }),
    vector("another log's key", good, "it is of another log", stranger.vkey()),
    vector("retired before", good, "its key counts for smaller trees only", `${log_key}@${receipt.tree_size - 1}`),
    vector(
      "an older tree's checkpoint",
      ofReceipt({ checkpoint: answerOf(older, [5]).receipt?.checkpoint ?? "" }),
      "tree_size is not the checkpoint's",
    ),
    vector(
      "an older tree",
      ofReceipt({ checkpoint: answerOf(older, [5]).receipt?.checkpoint ?? "", tree_size: older.head().size }),
      "the nodes are of another tree",
    ),
    vector("another origin", ofReceipt({ log_origin: `${receipt.log_origin}0` }), "log_origin is not the checkpoint's"),
    vector("another size", ofReceipt({ tree_size: receipt.tree_size + 1 }), "tree_size is not the checkpoint's"),
    vector("no nodes", ofReceipt({ nodes: [] }), "nodes are missing"),
    vector("a node less", ofReceipt({ nodes: nodes.slice(1) }), "a node is missing"),
    vector("a node more", ofReceipt({ nodes: [...nodes, nodes[0] as string] }), "a node is left over"),
    vector("nodes in another order", ofReceipt({ nodes: nodes.toReversed() }), "nodes go from left to right"),
    vector("another node", ofReceipt({ nodes: [first.leaf_hash, ...nodes.slice(1)] }), "a node is another"),
    vector("a shorter node", ofReceipt({ nodes: ["AAAA", ...nodes.slice(1)] }), "a node is no hash"),
    vector("another leaf's index", ofLeaf(0, { leaf_index: 6 }), "leaf_index is another leaf's"),
    vector("an index beyond the tree", ofLeaf(3, { leaf_index: receipt.tree_size }), "the tree has no such leaf"),
    vector("another leaf's hash", ofLeaf(0, { leaf_hash: second.leaf_hash }), "leaf_hash is another leaf's"),
    vector("two leaves in each other's place", { ...good, items: swapped }, "leaf_index is another leaf's"),
    vector("two records at one place", ofLeaf(0, { leaf_index: second.leaf_index }), "one place has one leaf"),
    vector(
      "an answered item without a leaf",
      { ...good, items: items.with(0, { outcome: "answered", ingestion: {} }) },
      "every answered item has a leaf",
    ),
    vector(
      "a leaf of an item that was refused",
      { ...good, items: items.with(0, { outcome: "refused", leaf: first }) },
      "only answered items have one",
    ),
    vector(
      "an answered item that says it was refused",
      { ...good, items: items.with(0, { ...(items[0] as RangeItem), outcome: "refused" }) },
      "outcome is not what came of the item",
    ),
    vector(
      "an item without a result that says it was answered",
      { ...good, items: [...items, { outcome: "answered" }] },
      "outcome is not what came of the item",
    ),
    vector("no leaves at all", { ...good, items: [refusedItem] }, "it proves nothing"),
    vector("no receipt", { items }, "there is none"),
    vector(
      "another decision",
      { ...good, items: items.with(1, { ...(items[1] as RangeItem), decision: { decision_id: first.record_id } }) },
      "the leaf is another decision's",
    ),
    {
      ...vector("another opening", ofLeaf(0, { opening: second.opening }), "the record is not the one committed to"),
      records,
    },
    { ...vector("another record", good, "the record is not the one committed to"), records: records.toReversed() },
    {
      ...vector("another record id", ofLeaf(0, { record_id: second.record_id }), "record_id is not the record's"),
      records,
    },
  ];
}
