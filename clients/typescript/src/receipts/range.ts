/** Verifies the records of a bulk answer with one receipt for all. */
import type { ItemOutcome, RangeLeaf, RangeReceipt } from "../../../../gen/platform/bulk/v1/common_pb.ts";
import { type Leaf, rootOfLeaves } from "./multi-proof.ts";
import { type Checkpoint, type LogKey, openCheckpoint, ReceiptError } from "./note.ts";
import { parseBase64, sameBytes } from "./text-forms.ts";

/** The members of a bulk answer that verification reads. */
export interface RangeAnswer {
  readonly receipt?: RangeReceipt | undefined;
  readonly items: readonly RangeItem[];
}

/** One of its items. An answered one has a decision, an ingestion or a registration. */
export interface RangeItem {
  readonly outcome: ItemOutcome;
  readonly leaf?: RangeLeaf | undefined;
  readonly decision?: { readonly decisionId: string } | undefined;
  readonly ingestion?: object | undefined;
  readonly registration?: object | undefined;
}

/** `ITEM_OUTCOME_ANSWERED`. */
const answered = 1;

/** The checkpoint of the log that holds the leaves of all answered items. Throws a ReceiptError. */
export async function verifyLeaves({ receipt, items }: RangeAnswer, keys: readonly LogKey[]): Promise<Checkpoint> {
  const given = receipt ?? fail("place in the answer is empty");
  const leaves = new Map<number, RangeLeaf>();
  for (const { outcome, leaf, decision, ingestion, registration } of items) {
    const isAnswered = outcome === answered;
    if ((leaf !== undefined) !== isAnswered || ((decision ?? ingestion ?? registration) !== undefined) !== isAnswered)
      fail("leaves are not those of the answered items");
    if (leaf === undefined) continue;
    if (decision !== undefined && decision.decisionId !== leaf.recordId)
      throw new ReceiptError("the receipt is of another decision_id than the answer");
    const index = Number(leaf.leafIndex);
    if (!Number.isSafeInteger(index) || index < 0) fail("leaf_index is no place in a log");
    // Two records may have been sent under one key; a decision has none.
    if (decision !== undefined && leaves.has(index)) throw new ReceiptError("one decision answers two items");
    const twin = leaves.get(index) ?? leaf;
    if (twin.recordId !== leaf.recordId || twin.leafHash !== leaf.leafHash || twin.opening !== leaf.opening)
      fail("leaves stand in each other's place");
    leaves.set(index, leaf);
  }
  const checkpoint = await openCheckpoint(given.checkpoint, keys);
  const { origin, size, root } = checkpoint;
  if (given.logOrigin !== origin) fail("log_origin is not what its checkpoint says");
  if (Number(given.treeSize) !== size) fail("tree_size is not what its checkpoint says");
  const hashed = [...leaves].map(([index, { leafHash }]): Leaf => ({ index, hash: bytes(leafHash, "leaf_hash") }));
  const made = await rootOfLeaves(
    hashed.sort((a, b) => a.index - b.index),
    size,
    given.nodes.map((node) => bytes(node, "nodes")),
  );
  if (made === undefined || !sameBytes(made, root)) fail("nodes do not lead from the leaves to the checkpoint's root");
  return checkpoint;
}

function bytes(text: string, member: string): Uint8Array {
  return parseBase64(text) ?? fail(`${member} is not base64`);
}

function fail(problem: string): never {
  throw new ReceiptError(`the receipt's ${problem}`);
}
