/** Splits a batch into records to append and retries of calls that already have a result (idempotency). */
import type { Idempotency } from "../ports/record.ts";
import {
  type BatchResult,
  type CommittedRecord,
  type EncodedRecord,
  type NotAppended,
  UnstorableError,
} from "../ports/store.ts";

/** One record of the batch: a fresh one by its position, or a known result. */
type Part =
  | { readonly position: number; readonly retried: boolean }
  | { readonly result: CommittedRecord | NotAppended };

/** Looks up the records with an idempotency scope. A scope that comes twice in one batch is one record. */
export function planBatch(
  records: readonly EncodedRecord[],
  find: (idempotency: Omit<Idempotency, "answer">) => CommittedRecord | NotAppended | undefined,
) {
  const fresh: EncodedRecord[] = [];
  const positions = new Map<string, number>();
  const plan = (record: EncodedRecord): Part => {
    const { idempotency } = record;
    const twin = idempotency && positions.get(idempotency.scope);
    if (twin !== undefined) {
      const isSame = fresh[twin]?.idempotency?.payloadDigest === idempotency?.payloadDigest;
      return isSame ? { position: twin, retried: true } : { result: "conflict" };
    }
    const known = idempotency && find(idempotency);
    if (known !== undefined) return { result: known };
    if (idempotency !== undefined) positions.set(idempotency.scope, fresh.length);
    fresh.push(record);
    return { position: fresh.length - 1, retried: false };
  };
  const parts = records.map(plan);
  return {
    fresh,
    results: (committed: readonly CommittedRecord[]): BatchResult["results"] =>
      parts.map((part) => {
        if ("result" in part) return part.result;
        const result = committed[part.position];
        if (result === undefined) throw new UnstorableError("A record was not placed.");
        const answer = part.retried ? fresh[part.position]?.answer : undefined;
        return answer === undefined ? result : { ...result, earlierAnswer: answer };
      }),
  };
}
