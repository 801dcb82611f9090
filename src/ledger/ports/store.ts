/** The ledger's interface to a store. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { LogName } from "../tlog/log-name.ts";
import type { TileName } from "../tlog/tiles.ts";
import type { Hash } from "../tlog/tree.ts";
import type { TreeHead } from "../tlog/tree-verify.ts";
import type { RecordArchive, ShownOfRecord } from "./ledger.ts";
import type { Idempotency, NewRecord, RecordCaller, RecordKind } from "./record.ts";
import type { RegistrationReader } from "./registrations.ts";
import type { SearchPage, SearchQuery, SearchTerm } from "./search.ts";

/** What the ledger can append: records of callers' and operators' actions. */
export type AppendableRecord = Omit<NewRecord, "kind" | "caller"> & {
  readonly kind: Exclude<RecordKind, "genesis">;
  readonly caller: RecordCaller;
};

/** A record ready for sequencing: request and outcome are canonical JSON. */
export interface EncodedRecord extends Omit<AppendableRecord, "request" | "outcome" | "idempotency"> {
  /** Canonical JSON, like the outcome. */
  readonly request: string;
  readonly outcome: string;
  readonly idempotency?: Omit<Idempotency, "answer">;
  /** JSON text of the answer for retries, which the store seals unread; present if `idempotency` is. */
  readonly answer?: string;
  /** Search terms besides the caller's; absent if there are none. */
  readonly terms?: readonly SearchTerm[];
  /** All of this as `readRecordText` reads it, cheap to pass to another thread. */
  readonly text: string;
}

/** Records of one tenant, in order. */
export interface TenantBatch {
  readonly tenantId: TenantId;
  /** At least one. */
  readonly records: readonly EncodedRecord[];
  /** What each result must contain, to save time; default: everything. */
  readonly shown?: readonly ShownOfRecord[];
  /** When the first caller stops waiting, in `performance.now` time. A wait for this log alone may end then. */
  readonly endsAtMs?: number;
}

/** A committed record with the parts of its receipt. Bytes are base64, as in receipts. */
export interface CommittedRecord {
  readonly recordId: RecordId;
  readonly leafIndex: number;
  /** RFC 3339 with milliseconds, UTC. */
  readonly recordedAt: string;
  /** A committed tree that holds the record; shared by all records of a batch. */
  readonly tree: TreeHead;
  readonly leafHash: string;
  /** Audit path in that tree, from `formatPath`. */
  readonly path: string;
  /** Absent if not requested. */
  readonly leaf?: string;
  readonly opening?: string;
  readonly record?: string;
  /** For an earlier record: JSON text of the answer stored with it. */
  readonly earlierAnswer?: string;
}

/** Why a record with an idempotency scope was not appended: the scope's record has another payload, or was erased. */
export type NotAppended = "conflict" | "erased";

/** Results of a batch: one for each record, in order. */
export interface BatchResult {
  readonly log: string;
  readonly results: readonly (CommittedRecord | NotAppended)[];
}

/** A failed batch, in a write whose other batches may have been stored. */
export interface BatchFailure {
  /** `UnstorableError` because of the data: nothing was stored. Any other error: it may still have become durable. */
  readonly error: unknown;
}

/**
 * Outcome of a batch. `later`: the store writes it apart from the others, which would have waited for it; does not
 * reject.
 */
export type BatchOutcome = BatchResult | BatchFailure | { readonly later: Promise<BatchResult | BatchFailure> };

/** The newest committed state of a log. */
export interface LogState extends TreeHead {
  readonly tenantId: TenantId;
  readonly origin: string;
}

/** A log with the time of its head, before which no record is made. */
export interface TimedLog extends LogState {
  /** Milliseconds since the Unix epoch. */
  readonly lastRecordedAtMs: number;
}

/** A write failed because of its data: nothing was stored. Any other rejection is a failure of the store. */
export class UnstorableError extends Error {
  override readonly name: string = "UnstorableError";
}

/** A write failed because the tenant's log is damaged, older than its anchor, or another log. */
export class UnsoundLogError extends UnstorableError {
  override readonly name = "UnsoundLogError";
}

/** Writes batches, for the appender only. */
export interface BatchWriter {
  /**
   * Appends each batch to its tenant's log, all or nothing, and creates missing logs. Indices have no gaps, even with
   * other writers on the same store. Resolves with one element for each batch, in order: a `BatchResult` only once it
   * is durable and the anchor has advanced to it, so that its trees may be signed. Rejects if no batch has a result:
   * with `UnstorableError` because of the data (nothing was stored), with anything else because of the store (all of it
   * may have become durable, or none). A tenant may be in one batch at a time only.
   */
  write(batches: readonly TenantBatch[]): Promise<readonly BatchOutcome[]>;
}

/** A stored cosignature of a witness. */
export interface StoredCosignature extends TreeHead {
  readonly tenantId: TenantId;
  /** Name and id of the witness's key, as in its lines. */
  readonly witness: string;
  readonly keyId: string;
  /** Line of the note, with its newline. */
  readonly line: string;
}

/** For each log, the newest cosignature of each witness. Both methods reject with `store_unavailable`. */
export interface CosignatureStore {
  /** All stored cosignatures. */
  cosignatures(): Promise<readonly StoredCosignature[]>;
  /** Stores those whose tree is not smaller than that of the stored one of the same witness and log. */
  storeCosignatures(cosignatures: readonly StoredCosignature[]): Promise<void>;
}

/** What services and commands read of a store. All reject with `store_unavailable`, with `internal` for damaged rows. */
export interface StoreReads extends RecordArchive, Pick<CosignatureStore, "cosignatures"> {
  /** Finds a record with its audit path in a committed tree of the log. `unknown` if the tree does not hold it. */
  proven(name: LogName, tree: TreeHead, recordId: RecordId): Promise<CommittedRecord | "unknown" | "erased">;
  /** Finds records of a tenant; an empty page if it has no log. Sees everything whose `write` resolved before the call. */
  search(query: SearchQuery): Promise<SearchPage>;
  /** The newest committed states of all logs, by tenant, or of one. They may not be signed yet. */
  logs(name?: LogName): Promise<readonly LogState[]>;
  /** A tile or bundle of the committed log, of any width that it has reached. Undefined if there is none. */
  tile(name: LogName, tile: TileName): Promise<Uint8Array | undefined>;
  /** RFC 6962 §2.1.2, between two sizes that the log has reached. Undefined if it has not, or without a log. */
  consistencyProof(name: LogName, first: number, second: number): Promise<readonly Hash[] | undefined>;
}

/** A store of logs. Unless stated otherwise, methods reject with a `ServiceError` `store_unavailable`. */
export interface LedgerStore extends StoreReads, BatchWriter, CosignatureStore, RegistrationReader {
  /**
   * The newest committed tree of a log, once the anchor has advanced to it, so that it may be signed. Undefined if
   * there is no such log. Rejects with `UnsoundLogError` like `write`.
   */
  head(name: LogName): Promise<LogState | undefined>;
  /** As `Tree.multiProof`, at a size that the log has reached. Undefined if it has not, or without a log. */
  multiProof(name: LogName, size: number, leafIndices: readonly number[]): Promise<readonly Hash[] | undefined>;
  /** Durable when it resolves. Existing content stays. Bytes are UTF-8. */
  keepPolicyRevision(revision: string, content: string | Uint8Array): Promise<void>;
  /** Makes a small durable write. */
  check(): Promise<void>;
}
