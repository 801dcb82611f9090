/** What the ledger asks of a store. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { LogName } from "../tlog/log-name.ts";
import type { TileName } from "../tlog/tiles.ts";
import type { Hash } from "../tlog/tree.ts";
import type { ShownOfRecord } from "./ledger.ts";
import type { StoredRecord } from "./record.ts";
import type { RegistrationReader } from "./registrations.ts";
import type { SearchPage, SearchQuery } from "./search.ts";

/** Records of one tenant, in order. Each is as `recordText` writes it: text crosses threads and waits cheaply. */
export interface TenantBatch {
  readonly tenantId: TenantId;
  /** At least one. */
  readonly records: readonly string[];
  /** What the results need to show of each, which takes its time on the way; all of all where it is absent. */
  readonly shown?: readonly ShownOfRecord[];
}

/** A tree of a log: all leaves before `size`, and the root over them. */
export interface StoredTree {
  readonly size: number;
  readonly root: Uint8Array;
}

/** A committed record with the material of its receipt. Bytes are base64, as receipts carry them. */
export interface CommittedRecord {
  readonly recordId: RecordId;
  readonly leafIndex: number;
  /** RFC 3339 with milliseconds, UTC. */
  readonly recordedAt: string;
  /** A committed tree that holds the record; one object for all records of a batch. */
  readonly tree: StoredTree;
  readonly leafHash: string;
  /** Audit path in that tree, as `formatPath` writes it. */
  readonly path: string;
  /** Absent where less was to be shown. */
  readonly leaf?: string;
  readonly opening?: string;
  readonly record?: string;
  /** Set where the record is an earlier one: JSON text of the answer that was kept with it. */
  readonly earlierAnswer?: string;
}

/** Why a record with an idempotency scope was not appended: the scope's record has another payload, or was erased. */
export type NotAppended = "conflict" | "erased";

/** Results of a batch: one for each record, in the same order. */
export interface BatchResult {
  readonly log: string;
  readonly results: readonly (CommittedRecord | NotAppended)[];
}

/** A batch without a result, in a write whose other batches may have been stored. */
export interface BatchFailure {
  /** `UnstorableError` because of the data: nothing was stored. Anything else: it may still have become durable. */
  readonly error: unknown;
  /** Whether it timed out: what is queued behind it for the same tenant has then waited as long. */
  readonly isLate?: boolean;
}

/** A batch that a write left out, of which nothing was stored: with it, others would have waited for its log. */
export interface BatchLeft {
  /** `held`: somebody else writes to the log now. `apart`: only a write of its own can carry it. */
  readonly left: "held" | "apart";
}

/** What became of a batch. */
export type BatchOutcome = BatchResult | BatchFailure | BatchLeft;

/**
 * How a write goes about logs that somebody else writes to: it leaves them out, or waits for them for a moment, or for as
 * long as a write may take. One that waits for long is of one batch, save in a store that has one writer.
 */
export type Patience = "none" | "moment" | "full";

/** The newest committed state of a log. */
export interface LogState extends StoredTree {
  readonly tenantId: TenantId;
  readonly origin: string;
}

/** A log with the time of its head, which no record is made earlier than. */
export interface TimedLog extends LogState {
  /** Milliseconds since the Unix epoch. */
  readonly lastRecordedAtMs: number;
}

/**
 * A write failed because of what is in it: nothing of it was stored, and it will fail again. Any other rejection is a
 * failure of the store.
 */
export class UnstorableError extends Error {
  override readonly name: string = "UnstorableError";
}

/** A write failed because the tenant's log is not what it was: it is damaged, older than its anchor, or another. */
export class UnsoundLogError extends UnstorableError {
  override readonly name = "UnsoundLogError";
}

/** Told of the result of a batch before it is durable: see `BatchWriter.write`. Does not throw. */
export type Foresee = (result: BatchResult) => void;

/** Writes batches. The appender is its only user. */
export interface BatchWriter {
  /**
   * Appends each batch to its tenant's log, all or nothing, and opens the logs that do not exist yet. Indices are
   * gapless, whoever else writes to the same store. Resolves with one element for each batch, in the same order: a
   * `BatchResult` only once it is durable and the anchor has been advanced to it, so that its trees may be signed.
   * Rejects where no batch has a result: with `UnstorableError` because of the data (nothing was stored), with anything
   * else because of the store (all of it may have become durable, or none). A tenant is in one batch at a time only.
   * @param endsAtMs from when on somebody waits no longer, as `performance.now` counts: a write of one tenant may end then
   * @param foresee told of the result of a batch before it is durable, where the store can tell: for what may be made of
   *   it beside the commit. Only where the outcome is this very object was it committed; else, and until then, nothing
   *   that was made of it may leave the process, since another tree of that size may be committed
   */
  write(
    batches: readonly TenantBatch[],
    patience: Patience,
    endsAtMs?: number,
    foresee?: Foresee,
  ): Promise<readonly BatchOutcome[]>;
}

/** A cosignature of a witness, as a store keeps it. */
export interface StoredCosignature extends StoredTree {
  readonly tenantId: TenantId;
  /** Name and id of the witness's key, as they stand in its lines. */
  readonly witness: string;
  readonly keyId: string;
  /** Line of the note, with its newline. */
  readonly line: string;
}

/** For each log the newest cosignature of each witness. Both reject with `store_unavailable`. */
export interface CosignatureStore {
  /** All that are kept, of every log. */
  cosignatures(): Promise<readonly StoredCosignature[]>;
  /** Keeps those that are of a larger tree than what is kept of the same witness and log, or of the same. */
  storeCosignatures(cosignatures: readonly StoredCosignature[]): Promise<void>;
}

/** A store of logs. Every rejection that is not said otherwise is a `ServiceError` `store_unavailable`. */
export interface LedgerStore extends BatchWriter, CosignatureStore, RegistrationReader {
  /** Sees everything whose `write` resolved before the call. Rejects with `internal` when what it finds is damaged. */
  find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased">;
  /**
   * Finds records of a tenant; an empty page where it has no log. Sees everything whose `write` resolved before the
   * call. Rejects with `internal` when what it comes across is damaged.
   */
  search(query: SearchQuery): Promise<SearchPage>;
  /** Every log. */
  logs(): Promise<readonly LogState[]>;
  /** The newest committed state of a log, not yet to be signed. Undefined where there is no such log. */
  log(name: LogName): Promise<LogState | undefined>;
  /**
   * The newest committed tree of a log, once the anchor has been advanced to it: then it may be signed. Undefined
   * where there is no such log. Rejects with `UnsoundLogError` like `write`.
   */
  head(name: LogName): Promise<LogState | undefined>;
  /** A tile or bundle of the committed log, of any width that it has reached. Undefined where there is none. */
  tile(name: LogName, tile: TileName): Promise<Uint8Array | undefined>;
  /** RFC 6962 §2.1.2, between two sizes that the log has reached. Undefined where it has not, or where there is none. */
  consistencyProof(name: LogName, first: number, second: number): Promise<readonly Hash[] | undefined>;
  /** As `Tree.multiProof`, of a size that the log has reached. Undefined where it has not, or where there is none. */
  multiProof(name: LogName, size: number, leafIndices: readonly number[]): Promise<readonly Hash[] | undefined>;
  /** Durable when it resolves. Keeps what is already there. Bytes are of UTF-8. */
  keepPolicyRevision(revision: string, content: string | Uint8Array): Promise<void>;
  /** Makes a small durable write. */
  check(): Promise<void>;
  /** Finishes what it was given, then lets go of the files or connections. */
  close(): Promise<void>;
}
