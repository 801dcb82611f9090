/** Resolves the pending appends of a batch, with signed receipts. */
import { ServiceError } from "../../base/errors.ts";
import type { JsonObject } from "../../base/json.ts";
import type { Appended, Receipt } from "../ports/ledger.ts";
import type { BatchResult, CommittedRecord, NotAppended, StoredTree } from "../ports/store.ts";
import type { CheckpointSigner } from "../tlog/signer.ts";
import { formatTlogProof } from "../tlog/tlog-proof.ts";
import type { Waiting } from "./queues.ts";

export type Answer = Appended | ServiceError;

/** Makes one signed receipt per result. They must not leave the process until the batch is committed and anchored. */
export function answersOf({ log, results }: BatchResult, signer: CheckpointSigner): readonly Answer[] {
  const sign = once((tree: StoredTree) => signer.sign({ origin: log, ...tree }));
  return results.map((result) =>
    typeof result === "string"
      ? new ServiceError("idempotency_conflict", conflicts[result])
      : appended(log, result, sign(result.tree)),
  );
}

/** Answers the callers of a batch. The batch must be committed and anchored. */
export function answerBatch(waiting: readonly Waiting[], answers: readonly Answer[]): void {
  if (answers.length !== waiting.length) throw new Error("The store left a record unanswered.");
  waiting.forEach(({ resolve, reject }, position) => {
    const answer = answers[position] as Answer;
    if (answer instanceof ServiceError) reject(answer);
    else resolve(answer);
  });
}

const conflicts: Readonly<Record<NotAppended, string>> = {
  conflict: "The idempotency key was used for another payload.",
  erased: "The record that was made under this idempotency key has been erased.",
};

function appended(log: string, committed: CommittedRecord, checkpoint: string): Appended {
  const { recordId, leafIndex, recordedAt, earlierAnswer } = committed;
  return {
    recordId,
    log,
    leafIndex,
    recordedAt,
    receipt: receiptOf(log, committed, checkpoint),
    ...(earlierAnswer !== undefined && { earlierAnswer: JSON.parse(earlierAnswer) as JsonObject }),
  };
}

/** The receipt of a committed record under the signed checkpoint of its tree. */
export function receiptOf(logOrigin: string, committed: CommittedRecord, checkpoint: string): Receipt {
  const { recordId, leafIndex, tree, leafHash, path, leaf, opening, record } = committed;
  const proof = formatTlogProof(leafIndex, path, checkpoint);
  return { recordId, logOrigin, leafIndex, treeSize: tree.size, leafHash, proof, leaf, opening, record };
}

/** Signs each tree once: the records of a batch share theirs. */
function once(sign: (tree: StoredTree) => string): (tree: StoredTree) => string {
  const signed = new Map<number, string>();
  return (tree) => {
    const checkpoint = signed.get(tree.size) ?? sign(tree);
    signed.set(tree.size, checkpoint);
    return checkpoint;
  };
}

/** The largest tree among a batch's results, and whether this batch made it. Undefined if nothing was appended. */
export function newestTree({
  results,
}: BatchResult): { readonly tree: StoredTree; readonly isFresh: boolean } | undefined {
  const committed = results.flatMap((result) => (typeof result === "string" ? [] : [result]));
  const newest = committed.reduce<CommittedRecord | undefined>(
    (most, each) => (most === undefined || each.tree.size > most.tree.size ? each : most),
    undefined,
  );
  return newest && { tree: newest.tree, isFresh: newest.earlierAnswer === undefined };
}

const retryAfterSeconds = 1;

export function storeFailure(cause: unknown): ServiceError {
  return cause instanceof ServiceError ? cause : unavailable("The record store is not available.", cause);
}

export function unavailable(message: string, cause?: unknown): ServiceError {
  return new ServiceError("store_unavailable", message, {
    retryAfterSeconds,
    ...(cause === undefined ? {} : { cause }),
  });
}
