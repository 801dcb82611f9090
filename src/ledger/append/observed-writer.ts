/** A writer of batches that tells of its durable commits. */
import type { BatchFailure, BatchResult, BatchWriter } from "../ports/store.ts";

/** Who watches what the commits of the ledger cost. */
export interface CommitObserver {
  /** Milliseconds since some moment; never goes back. */
  readonly elapsedMs: () => number;
  /**
   * One write made so many records durable, at least one; retries, which are answered from what an earlier write kept,
   * are none of them. The time is that of the whole write, from handing it to the store to the store's word that it is
   * durable. Told before the callers are answered; returns at once and does not throw.
   */
  readonly committed: (records: number, durationMs: number) => void;
}

/** The same writer. A write that failed, or that appended nothing, is not told of. */
export function observedWriter(writer: BatchWriter, { elapsedMs, committed }: CommitObserver): BatchWriter {
  return {
    async write(batches) {
      const startedMs = elapsedMs();
      const outcomes = await writer.write(batches);
      const records = outcomes.reduce((sum, outcome) => sum + appendedBy(outcome), 0);
      if (records > 0) committed(records, elapsedMs() - startedMs);
      return outcomes;
    },
  };
}

function appendedBy(outcome: BatchResult | BatchFailure): number {
  if (!("results" in outcome)) return 0;
  let appended = 0;
  for (const result of outcome.results)
    if (typeof result !== "string" && result.keptAnswer === undefined) appended += 1;
  return appended;
}
