/** Decorates a ledger: reports the outcome of writes, for discovery and metrics. */
import { ServiceError } from "../../base/errors.ts";
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { Span } from "../../base/trace.ts";
import type { Appended, Ledger, RecordGroup, ShownOfRecord } from "../ports/ledger.ts";
import type { NewRecord, StoredRecord } from "../ports/record.ts";
import type { ArtifactRegistrations } from "../ports/registrations.ts";
import type { BatchOutcome, BatchWriter } from "../ports/store.ts";

export class ObservedLedger implements Ledger {
  readonly #ledger: Ledger;
  readonly #onFailure: () => void;
  #writable = true;

  /** @param onFailure called for every append that the store refused */
  constructor(ledger: Ledger, onFailure: () => void) {
    this.#ledger = ledger;
    this.#onFailure = onFailure;
  }

  /** Whether the newest append or check found the store writable. */
  get writable(): boolean {
    return this.#writable;
  }

  append(record: NewRecord, span?: Span): Promise<Appended> {
    return this.#observe(this.#ledger.append(record, span), this.#onFailure);
  }

  group(tenantId: TenantId, shown?: ShownOfRecord): RecordGroup {
    const group = this.#ledger.group(tenantId, shown);
    return {
      enter: (count) => group.enter(count),
      leave: () => group.leave(),
      add: (place, record) => group.add(place, record),
      commit: (span) => this.#observe(group.commit(span), this.#onFailure),
    };
  }

  check(): Promise<void> {
    return this.#observe(this.#ledger.check());
  }

  find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased"> {
    return this.#ledger.find(tenantId, recordId);
  }

  registrations(tenantId: TenantId, names: readonly string[]): Promise<readonly ArtifactRegistrations[]> {
    return this.#ledger.registrations(tenantId, names);
  }

  multiProof(log: string, size: number, leafIndices: readonly number[]): Promise<readonly Uint8Array[]> {
    return this.#ledger.multiProof(log, size, leafIndices);
  }

  keepPolicyRevision(revision: string, content: string | Uint8Array): Promise<void> {
    return this.#ledger.keepPolicyRevision(revision, content);
  }

  close(): Promise<void> {
    return this.#ledger.close();
  }

  async #observe<T>(work: Promise<T>, onFailure?: () => void): Promise<T> {
    try {
      const result = await work;
      this.#writable = true;
      return result;
    } catch (error) {
      // A refusal because of the entry's content is no failure of the store.
      if (error instanceof ServiceError && error.reason === "store_unavailable") {
        this.#writable = false;
        onFailure?.();
      }
      throw error;
    }
  }
}

/** Observes the cost of the ledger's commits. */
export interface CommitObserver {
  /** Monotonic clock, in milliseconds. */
  readonly elapsedMs: () => number;
  /**
   * Called after each write that made at least one record durable, before the callers are answered. Retries answered
   * from an earlier write are not counted. The duration is that of the whole write. Must return at once and not throw.
   */
  readonly committed: (records: number, durationMs: number) => void;
  /** Called with the time that a record waited for the store. As `committed`. */
  readonly waited?: (waitedMs: number) => void;
  /** Receives a function that counts the records waiting for the store. */
  readonly watchWaiting?: (count: () => number) => void;
}

/** Returns the writer, observed. A write that failed or appended nothing is not reported. */
export function observedWriter(writer: BatchWriter, { elapsedMs, committed }: CommitObserver): BatchWriter {
  return {
    async write(batches, patience, endsAtMs, foresee) {
      const startedMs = elapsedMs();
      const outcomes = await writer.write(batches, patience, endsAtMs, foresee);
      const records = outcomes.reduce((sum, outcome) => sum + appendedBy(outcome), 0);
      if (records > 0) committed(records, elapsedMs() - startedMs);
      return outcomes;
    },
  };
}

function appendedBy(outcome: BatchOutcome): number {
  if (!("results" in outcome)) return 0;
  let appended = 0;
  for (const result of outcome.results)
    if (typeof result !== "string" && result.earlierAnswer === undefined) appended += 1;
  return appended;
}
