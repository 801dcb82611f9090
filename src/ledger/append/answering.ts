/** Resolves the pending appends of a batch, with signed receipts. */
import { ServiceError, storeUnavailable } from "../../base/errors.ts";
import { type JsonObject, parseJson } from "../../base/json.ts";
import type { Receipt } from "../ports/ledger.ts";
import type { BatchResult, CommittedRecord, NotAppended } from "../ports/store.ts";
import type { Checkpoint } from "../tlog/checkpoint.ts";
import { coseReceipt, type SignedRoot } from "../tlog/cose-receipt.ts";
import type { CheckpointSigner } from "../tlog/signer.ts";
import { formatTlogProof, parsePath } from "../tlog/tlog-proof.ts";
import type { TreeHead } from "../tlog/tree-verify.ts";
import type { Waiting } from "./queues.ts";

/** Answers the callers of a batch, with one signed receipt each. The batch must be committed and anchored. */
export function answerBatch(
  waiting: readonly Waiting[],
  { log, results }: BatchResult,
  signer: CheckpointSigner,
): void {
  if (results.length !== waiting.length) throw new Error("The store left a record unanswered.");
  // The records of a batch share theirs.
  const trees = new Map<number, SignedTree>();
  for (const [position, { resolve, reject }] of waiting.entries()) {
    const result = results[position] as CommittedRecord | NotAppended;
    if (typeof result === "string") {
      reject(new ServiceError("idempotency_conflict", conflicts[result]));
      continue;
    }
    const { recordId, leafIndex, recordedAt, tree, earlierAnswer } = result;
    const signed = trees.get(tree.size) ?? signedTree({ origin: log, ...tree }, signer);
    trees.set(tree.size, signed);
    resolve({
      ...{ recordId, log, leafIndex, recordedAt },
      receipt: receiptOf(log, result, signed),
      ...(earlierAnswer !== undefined && { earlierAnswer: parseJson(earlierAnswer) as JsonObject }),
    });
  }
}

const conflicts: Readonly<Record<NotAppended, string>> = {
  conflict: "The idempotency key was used for another payload.",
  erased: "The record that was made under this idempotency key has been erased.",
};

/** The signatures of a tree. */
export interface SignedTree {
  readonly checkpoint: string;
  /** Made at the first call. */
  root(): SignedRoot;
}

/** Signs a tree, of which `CheckpointSigner.sign` must be true. */
export function signedTree(tree: Checkpoint, signer: Pick<CheckpointSigner, "sign" | "signRoot">): SignedTree {
  let root: SignedRoot | undefined;
  return {
    checkpoint: signer.sign(tree),
    root() {
      root ??= signer.signRoot(tree);
      return root;
    },
  };
}

/** The receipt of a committed record in its signed tree. */
export function receiptOf(logOrigin: string, committed: CommittedRecord, signed: SignedTree): Receipt {
  const { recordId, leafIndex, tree, leafHash, path, leaf, opening, record } = committed;
  const proof = formatTlogProof(leafIndex, path, signed.checkpoint);
  const cose = () => coseReceipt(signed.root(), { index: leafIndex, size: tree.size, path: parsePath(path) });
  return { recordId, logOrigin, leafIndex, treeSize: tree.size, leafHash, proof, leaf, opening, record, cose };
}

/** The largest tree among a batch's results, and whether this batch made it. Undefined if nothing was appended. */
export function newestTree({
  results,
}: BatchResult): { readonly tree: TreeHead; readonly isFresh: boolean } | undefined {
  const committed = results.filter((result) => typeof result !== "string");
  const [newest] = committed.toSorted((one, other) => other.tree.size - one.tree.size);
  return newest && { tree: newest.tree, isFresh: newest.earlierAnswer === undefined };
}

export function storeFailure(cause: unknown): ServiceError {
  return cause instanceof ServiceError ? cause : storeUnavailable("The record store is not available.", cause);
}
