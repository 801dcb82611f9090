/** What the ledger asks of a store. */
import type { RecordId, TenantId } from "../base/ids.ts";
import type { StoredRecord } from "./ports.ts";

/** Records of one tenant, in order. Each is the JSON text of a `NewRecord`: text crosses threads and waits cheaply. */
export interface TenantBatch {
  readonly tenantId: TenantId;
  /** At least one. */
  readonly records: readonly string[];
}

/** Where a batch ended up: its records stand at consecutive indices. */
export interface BatchPlace {
  readonly log: string;
  readonly firstLeafIndex: number;
  /** RFC 3339 with milliseconds, UTC. */
  readonly recordedAt: string;
}

/**
 * A write failed because of what is in it: nothing of it was stored, and it will fail again. Any other rejection is a
 * failure of the store.
 */
export class UnstorableError extends Error {
  override readonly name = "UnstorableError";
}

/** Writes batches. The appender is its only user. */
export interface BatchWriter {
  /**
   * Appends each batch to its tenant's log, all or nothing, and opens the logs that do not exist yet. Indices are
   * gapless, whoever else writes to the same store. Resolves, with one place for each batch in the same order, only
   * when everything is durable. Rejects with `UnstorableError` because of the data, with anything else because of the
   * store: then all of it may still have become durable, or none. No tenant stands twice in one call, nor in two calls
   * at a time.
   */
  write(batches: readonly TenantBatch[]): Promise<readonly BatchPlace[]>;
}

/** A store of logs. Every rejection that is not said otherwise is a `ServiceError` `store_unavailable`. */
export interface LedgerStore extends BatchWriter {
  /** Sees everything whose `write` resolved before the call. Rejects with `internal` when what it finds is damaged. */
  find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased">;
  /** Durable when it resolves. Keeps what is already there. */
  keepPolicyRevision(revision: string, content: string): Promise<void>;
  /** Makes a small durable write. */
  check(): Promise<void>;
  /** Finishes what it was given, then lets go of the files or connections. */
  close(): Promise<void>;
}
