/**
 * Verifies receipts offline with WebCrypto: that the tenant's log holds exactly the record of an answer, and continues
 * to.
 */
import { create, type JsonObject } from "@bufbuild/protobuf";
import type { RangeLeaf } from "../../../gen/platform/bulk/v1/common_pb.ts";
import { CallerSchema, type Receipt } from "../../../gen/platform/sdk/v1/common_pb.ts";
import {
  type AskedOfAnswer,
  type CallKnowledge,
  type RecordedAnswer,
  receiptOf,
  requireAnswers,
} from "./receipts/answer.ts";
import {
  type AskedOf,
  answered,
  type BulkAnswer,
  type BulkKnowledge,
  type ItemKnowledge,
  isWithResult,
  type RecordedItem,
  receiptOfItem,
  requireAnswersItem,
} from "./receipts/items.ts";
import { type Checkpoint, openCheckpoint, parseLogKey, ReceiptError } from "./receipts/note.ts";
import { type RangeAnswer, verifyLeaves } from "./receipts/range.ts";
import { leafOf, verifyMaterial } from "./receipts/record.ts";
import { parseBase64, parseDecimal } from "./receipts/text-forms.ts";
import { hashBytes, verifyConsistency, verifyInclusion } from "./receipts/tree.ts";

export type { AskedOfAnswer, CallKnowledge, RecordedAnswer } from "./receipts/answer.ts";
export type { AskedOf, BulkAnswer, BulkKnowledge, ItemKnowledge, RecordedItem } from "./receipts/items.ts";
export { ReceiptError } from "./receipts/note.ts";
export type { RangeAnswer, RangeItem } from "./receipts/range.ts";

/** What a receipt proves. */
export interface VerifiedReceipt {
  readonly logOrigin: string;
  readonly leafIndex: number;
  readonly treeSize: number;
  /** SHA-256. */
  readonly root: Uint8Array;
  /** The record in its own spelling; absent for a brief receipt, which proves only a position. */
  readonly record?: JsonObject;
}

/**
 * Checks a receipt against the keys of the tenant's log, which must come from the operator, never from the receipt.
 * Does not show that the record is true, nor that it was not erased since.
 *
 * @param logKeys C2SP signed-note verifier keys, `<origin>+<hash>+<key>`; followed by `@<size>` if one was retired and
 *   counts for trees of up to so many leaves. Any of them may have signed.
 * @throws ReceiptError if no key can be parsed, or the receipt does not verify
 */
export async function verifyReceipt(receipt: Receipt, logKeys: string | readonly string[]): Promise<VerifiedReceipt> {
  const keys = await Promise.all([logKeys].flat().map(parseLogKey));
  const leafHash = bytes(receipt.leafHash, "leaf_hash");
  const { index, checkpoint } = await verifyProof(receipt.proof, leafHash, keys);
  const { origin, size, root } = checkpoint;
  if (receipt.logOrigin !== origin) fail("log_origin is not what its proof shows");
  if (Number(receipt.leafIndex) !== index) fail("leaf_index is not what its proof shows");
  if (Number(receipt.treeSize) !== size) fail("tree_size is not what its proof shows");
  const position = { logOrigin: origin, leafIndex: index, treeSize: size, root };
  const { leaf, opening, record } = receipt;
  if (leaf === undefined && opening === undefined && record === undefined) return position;
  if (leaf === undefined || opening === undefined || record === undefined)
    return fail("leaf, opening and record are not all there");
  const material = { leaf: bytes(leaf, "leaf"), opening: bytes(opening, "opening"), record: bytes(record, "record") };
  const shown = await verifyMaterial(material, leafHash);
  if (shown.record_id !== receipt.recordId || shown.log !== origin)
    fail("record, leaf and members do not name the same record");
  return { ...position, record: shown };
}

/**
 * Checks the receipt of an answer as `verifyReceipt` does, and that it belongs to this answer and this question: the
 * answer must agree with the record, and the record's request with the question. For a brief receipt only the id of a
 * decision is compared.
 *
 * @param asked the request that was sent. Undefined if it was not kept: an answer to another question then passes
 * @throws ReceiptError also if the answer has no receipt
 */
export async function verifyAnswer<Answer extends RecordedAnswer>(
  answer: Answer,
  asked: AskedOfAnswer<Answer> | undefined,
  logKeys: string | readonly string[],
  knowledge: CallKnowledge = {},
): Promise<VerifiedReceipt> {
  const receipt = receiptOf(answer) ?? fail("place in the answer is empty");
  const verified = await verifyReceipt(receipt, logKeys);
  requireAnswers(answer, asked, receipt.recordId, verified.record, knowledge);
  return verified;
}

/**
 * Checks the receipt of an item of a bulk call, or of its result on a stream, as `verifyAnswer` does.
 *
 * @param asked the request that was sent: for an event or registration, the one inside its item
 * @throws ReceiptError also if the item has no receipt
 */
export async function verifyItem<Item extends RecordedItem>(
  item: Item,
  asked: AskedOf<Item>,
  logKeys: string | readonly string[],
  knowledge: ItemKnowledge = {},
): Promise<VerifiedReceipt> {
  const receipt = receiptOfItem(item) ?? fail("place in the item is empty");
  const verified = await verifyReceipt(receipt, logKeys);
  requireAnswersItem(item, asked, receipt.recordId, verified.record, knowledge);
  return verified;
}

/**
 * Checks every answered item of a bulk call, in order; undefined for items that were not answered.
 *
 * @param asked the requests of the items, in order
 * @throws ReceiptError if any receipt does not verify, an answered item has none, or one record answers two items
 */
export async function verifyItems<Answer extends BulkAnswer>(
  { items, caller }: Answer,
  asked: readonly AskedOf<Answer["items"][number]>[],
  logKeys: string | readonly string[],
  { idempotencyKeys, ...knowledge }: BulkKnowledge = {},
): Promise<(VerifiedReceipt | undefined)[]> {
  if (asked.length !== items.length) throw new ReceiptError("the answer has not as many items as were asked");
  const verified = await Promise.all(
    items.map(async (item: RecordedItem, i) => {
      const isAnswered = item.outcome === answered;
      if (!isAnswered && isWithResult(item)) throw new ReceiptError("an item has a result that it says it has not");
      // An item with a key may have been recorded before.
      const sentAtMs = idempotencyKeys?.[i] ? undefined : knowledge.sentAtMs;
      // An answer without a caller has none that could be the record's.
      const known = { ...knowledge, sentAtMs, answerCaller: caller ?? create(CallerSchema) };
      return isAnswered ? verifyItem(item, asked[i] as AskedOf<RecordedItem>, logKeys, known) : undefined;
    }),
  );
  requireOwnRecords(verified, idempotencyKeys);
  return verified;
}

/** Two items may ask the same, so that their questions do not tell their records apart. */
function requireOwnRecords(verified: readonly (VerifiedReceipt | undefined)[], keys: readonly string[] = []): void {
  const owners = new Map<string, string | number>();
  for (const [i, one] of verified.entries()) {
    if (one === undefined) continue;
    const place = `${one.logOrigin} ${one.leafIndex}`;
    const owner = keys[i] || i;
    if ((owners.get(place) ?? owner) !== owner) throw new ReceiptError("one record answers two items");
    owners.set(place, owner);
  }
}

/**
 * Checks the answer to a bulk call with one receipt for all items (`x-svc-receipt: range`), as `verifyReceipt` does a
 * brief one: the position of each answered item's record, and that it is the decision's.
 *
 * @returns what is proven for each item, in order; undefined for one that was not answered
 * @throws ReceiptError also if the answer has no such receipt
 */
export async function verifyRange(
  answer: RangeAnswer,
  logKeys: string | readonly string[],
): Promise<readonly (VerifiedReceipt | undefined)[]> {
  const keys = await Promise.all([logKeys].flat().map(parseLogKey));
  const { origin: logOrigin, size: treeSize, root } = await verifyLeaves(answer, keys);
  return answer.items.map(({ leaf }) => leaf && { logOrigin, leafIndex: Number(leaf.leafIndex), treeSize, root });
}

/**
 * Proves that a record is at a position from `verifyRange`: that the item's leaf is this record's.
 *
 * @param record exact bytes of the record, or its text, from a pack or a search of the log
 * @throws ReceiptError if it is another
 */
export async function verifyOpening(
  proven: VerifiedReceipt,
  { recordId, leafIndex, leafHash, opening }: RangeLeaf,
  record: Uint8Array<ArrayBuffer> | string,
): Promise<VerifiedReceipt> {
  if (Number(leafIndex) !== proven.leafIndex) fail("leaf_index is another than was proven");
  const text = typeof record === "string" ? new TextEncoder().encode(record) : record;
  const material = { opening: bytes(opening, "opening"), record: text };
  const hash = bytes(leafHash, "leaf_hash");
  const shown = await verifyMaterial({ ...material, leaf: await leafOf(material) }, hash);
  if (shown.record_id !== recordId || shown.log !== proven.logOrigin)
    fail("record, leaf and members do not name the same record");
  return { ...proven, record: shown };
}

/**
 * Whether the log of the later receipt holds everything of the earlier one's, at the same positions (RFC 6962 §2.1.2).
 * Both must be verified; false if the proof does not show it.
 *
 * @param proof answer of the operator listener at `/ledger/<log>/consistency` for the two tree sizes: one base64 hash
 *   per line
 */
export async function continues(earlier: VerifiedReceipt, later: VerifiedReceipt, proof: string): Promise<boolean> {
  if (earlier.logOrigin !== later.logOrigin) return false;
  const hashes = proof
    .split("\n")
    .filter((line) => line !== "")
    .map(parseBase64);
  if (!hashes.every((hash) => hash !== undefined)) return false;
  const tree = ({ treeSize, root }: VerifiedReceipt) => ({ size: treeSize, root });
  return verifyConsistency(tree(earlier), tree(later), hashes);
}

const header = "c2sp.org/tlog-proof@v1";
/** The path in a tree of 2^53 leaves is no longer. */
const maxPathLength = 53;

/** An inclusion proof as text, C2SP tlog-proof v1: index, audit path and checkpoint. */
async function verifyProof(
  text: string,
  leafHash: Uint8Array,
  keys: Parameters<typeof openCheckpoint>[1],
): Promise<{ readonly index: number; readonly checkpoint: Checkpoint }> {
  const end = text.indexOf("\n\n");
  if (end < 0) fail("proof has no checkpoint");
  const [first, ...lines] = text.slice(0, end).split("\n");
  if (first !== header) fail("proof is not of version 1");
  // Opaque, and not authenticated.
  if (lines[0]?.startsWith("extra ") === true) bytes((lines.shift() as string).slice("extra ".length), "proof");
  const indexLine = lines.shift() ?? "";
  const index = indexLine.startsWith("index ") ? parseDecimal(indexLine.slice("index ".length)) : undefined;
  if (index === undefined || lines.length > maxPathLength) return fail("proof is malformed");
  const path = lines.map((line) => bytes(line, "proof"));
  if (path.some(({ length }) => length !== hashBytes)) fail("proof is malformed");
  const checkpoint = await openCheckpoint(text.slice(end + 2), keys);
  if (!(await verifyInclusion(leafHash, index, checkpoint.size, checkpoint.root, path)))
    fail("proof does not lead from the leaf to the checkpoint's root");
  return { index, checkpoint };
}

function bytes(text: string, member: string): Uint8Array<ArrayBuffer> {
  return parseBase64(text) ?? fail(`${member} is not base64`);
}

function fail(problem: string): never {
  throw new ReceiptError(`the receipt's ${problem}`);
}
