/** Idempotency records: payload digest and answer of a call, sealed with the opening of the call's record. */
import { parseJson } from "../../base/json.ts";
import type { IdempotencyRow } from "../ports/archive.ts";
import { type CommittedRecord, type NotAppended, UnsoundLogError } from "../ports/store.ts";
import type { Tree } from "../tlog/tree.ts";
import { type TreeHead, verifyConsistency } from "../tlog/tree-verify.ts";
import { committedRecord } from "./committed-record.ts";
import { parseLeaf } from "./leaf.ts";
import { open, openAnswer, sealAnswer } from "./sealing.ts";

/** Minimum time for which a retry is recognized. */
export const idempotencyTtlMs = 24 * 60 * 60 * 1_000;
/** Expired rows deleted with each insert: more than one, so that they do not accumulate; few, for speed. */
export const purgedPerInsert = 4;

/** Seals payload digest, on the first line, and JSON of the answer with the opening of the call's record. */
export function sealIdempotencyRecord(payloadDigest: string, answer: string, opening: Uint8Array): Uint8Array {
  return sealAnswer(Buffer.from(`${payloadDigest}\n${answer}`, "utf8"), opening);
}

/**
 * Returns the result for a retry: the first call's record, with its receipt in the tree of that time. The receipt's root
 * is computed from stored tiles and signed, so the head must prove it: a damaged tile would make a second root of its size.
 *
 * @param head the newest state of the log
 * @param treeAt returns the log at a size that it has reached
 * @throws UnsoundLogError if stored data does not verify
 */
export function idempotentResult(
  row: IdempotencyRow,
  payloadDigest: string,
  head: TreeHead,
  treeAt: (size: number) => Tree,
): CommittedRecord | NotAppended {
  const { answer, opening } = row;
  if (answer === null || opening === null) return "erased";
  try {
    const kept = readKept(answer, opening);
    if (kept.payloadDigest !== payloadDigest) return "conflict";
    const tree = treeAt(row.treeSize);
    const proof = treeAt(head.size).consistencyProof(tree.size);
    if (!verifyConsistency({ size: tree.size, root: tree.root() }, head, proof)) throw new Error("a tile is damaged");
    return { ...committedBefore(row, opening, tree), earlierAnswer: kept.answer };
  } catch (cause) {
    throw new UnsoundLogError(`the answer kept with leaf ${row.leafIndex} does not verify`, { cause });
  }
}

/** Returns the problem of a row, given the size of its log; undefined if there is none. */
export function idempotencyProblem(
  { leafIndex, treeSize, answer, opening, leaf, record }: IdempotencyRow,
  size: number,
): string | undefined {
  if (treeSize <= leafIndex || treeSize > size) return `refers to a tree of ${treeSize} leaves`;
  if (answer === null || opening === null)
    return answer === opening
      ? undefined
      : `was ${answer === null ? "emptied, and the record was not erased" : "left behind, and the record was erased"}`;
  try {
    const kept = readKept(answer, opening);
    parseJson(kept.answer);
    open(record, opening, parseLeaf(leaf).commitment);
    return /^sha256:[0-9a-f]{64}$/.test(kept.payloadDigest) ? undefined : "names no payload";
  } catch {
    return "is missing or does not open";
  }
}

function committedBefore(row: IdempotencyRow, opening: Uint8Array, tree: Tree): CommittedRecord {
  const { recordId, leafIndex, leaf } = row;
  const { commitment, recorded_at: recordedAt } = parseLeaf(leaf);
  const record = open(row.record, opening, commitment);
  const logged = { recordId, leafIndex, recordedAt, leaf, opening, record };
  return committedRecord(logged, tree, { size: tree.size, root: tree.root() });
}

/** Reads what `sealIdempotencyRecord` sealed. Throws as `openAnswer`. */
function readKept(
  sealed: Uint8Array,
  opening: Uint8Array,
): { readonly payloadDigest: string; readonly answer: string } {
  const text = Buffer.from(openAnswer(sealed, opening)).toString("utf8");
  const end = text.indexOf("\n");
  return { payloadDigest: text.slice(0, end), answer: text.slice(end + 1) };
}
