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

  /** `onFailure` is told of every append that the store refused. */
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
      // An entry that is refused for what it says is no failure of the store.
      if (error instanceof ServiceError && error.reason === "store_unavailable") {
        this.#writable = false;
        onFailure?.();
      }
      throw error;
    }
  }
}

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
  /** A record waited so long before it was handed to the store. As `committed`. */
  readonly waited?: (waitedMs: number) => void;
  /** Gets what tells how many records wait to be handed to the store. */
  readonly watchWaiting?: (count: () => number) => void;
}

/** The same writer. A write that failed, or that appended nothing, is not told of. */
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
