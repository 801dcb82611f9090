/** The ledger for the rest of the service. The comments are the contract. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { JsonObject } from "../../base/json.ts";
import type { Span } from "../../base/trace.ts";
import type { LogName } from "../tlog/log-name.ts";
import type { NewRecord, StoredRecord } from "./record.ts";
import type { RegistrationReader } from "./registrations.ts";
import type { SearchPage, SearchQuery } from "./search.ts";

/** Position of a record. */
export interface Appended {
  readonly recordId: RecordId;
  readonly log: string;
  readonly leafIndex: number;
  readonly recordedAt: string;
  readonly receipt: Receipt;
  /** For a retry, which appends nothing: the first answer. */
  readonly earlierAnswer?: JsonObject;
}

/** Proves offline that the log holds exactly this record. */
export interface Receipt {
  readonly recordId: RecordId;
  readonly logOrigin: string;
  readonly leafIndex: number;
  readonly treeSize: number;
  /** RFC 6962 hash of the leaf. Base64, as are the last three. */
  readonly leafHash: string;
  /** C2SP tlog-proof v1. */
  readonly proof: string;
  /** Exact bytes of leaf, opening and record; absent if less than `all` was requested. */
  readonly leaf?: string | undefined;
  readonly opening?: string | undefined;
  readonly record?: string | undefined;
  /**
   * Makes the COSE receipt (RFC 9942). The receipts of a commit share one signature, made for the first of them that is
   * asked. Throws `store_unavailable` if the log's key was rotated since, and this process does not have the new one.
   */
  cose(): Uint8Array;
}

/** The receipt without its COSE receipt, in the spelling of the JSON routes. */
export function receiptMembers(receipt: Receipt) {
  const { recordId, logOrigin, leafIndex, treeSize, leafHash, proof, leaf, opening, record } = receipt;
  return {
    ...{ record_id: recordId, log_origin: logOrigin, leaf_index: leafIndex, tree_size: treeSize, leaf_hash: leafHash },
    ...{ proof, leaf, opening, record },
  };
}

/** What a receipt contains besides the position of its record. */
export type ShownOfRecord = "all" | "opening" | "nothing";

/** Records of one tenant in one durable commit. */
export interface RecordGroup {
  /**
   * Reserves room for so many records before they are made. Undefined if there is room; else resolves when enough of
   * the tenant's groups have ended, or rejects with `overloaded` after a second.
   */
  enter(count: number): Promise<void> | undefined;
  /** Gives back the reserved room. Idempotent. */
  leave(): void;
  /**
   * Adds a record at its place in the group, in any order. Settles as `Ledger.append` does, once the group is
   * committed. Throws `invalid_request` for a record that cannot be recorded, which is then left out.
   */
  add(place: number, record: NewRecord): Promise<Appended>;
  /**
   * Commits the records in the order of their places. Resolves when each has its result. Rejects as `Ledger.append` if
   * nothing of the group was acknowledged; some of it may still have become durable. If the store refuses the data of a
   * record, only that record is refused, and the others are committed without it, in several commits.
   */
  commit(span?: Span): Promise<void>;
}

export interface Ledger extends RegistrationReader {
  /**
   * Appends one record to its tenant's log. Resolves only when the record is durable: after any later crash of process
   * or machine it is there. Records of one tenant are ordered; those of several are not. Rejects with `ServiceError`
   * `store_unavailable` if the store is down, its queue for the tenant is full, or the log contradicts the anchor; the
   * record may then still have become durable, and is never acknowledged.
   *
   * A record whose idempotency scope was seen in the last 24 hours is not appended: the first one's position, receipt
   * and answer are returned, across restarts too. Rejects with `idempotency_conflict` if the payload differs, or if the
   * first record was erased.
   *
   * @param span of the append, to be linked with the span of the shared write
   */
  append(record: NewRecord, span?: Span): Promise<Appended>;

  /** Begins a group of a tenant's records. `shown`: what their receipts must contain at least. */
  group(tenantId: TenantId, shown?: ShownOfRecord): RecordGroup;

  /**
   * Finds a record of this tenant. Sees everything that was acknowledged before the call. Another tenant's record is
   * `unknown`. Rejects with `store_unavailable` if the store cannot be read.
   */
  find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased">;

  /**
   * Returns the nodes that, with these leaves, make the root of a log's tree: roots of the largest subtrees without any
   * of them, from left to right. Rejects with `store_unavailable`, and with `internal` if the log is damaged or never
   * was so large.
   *
   * @param log origin of the log
   * @param size of the tree, which holds all of the leaves
   * @param leafIndices ascending, without duplicates
   */
  multiProof(log: string, size: number, leafIndices: readonly number[]): Promise<readonly Uint8Array[]>;

  /** Stores the complete content of a policy revision, so that it can be evaluated again. Idempotent. */
  keepPolicyRevision(revision: string, content: string | Uint8Array): Promise<void>;

  /** Resolves if the store can write now; rejects with `store_unavailable` otherwise. */
  check(): Promise<void>;

  /** Finishes what is queued, then releases the store. */
  close(): Promise<void>;
}

/** Reads records, beside a running service or without one. Cannot write. */
export interface RecordArchive extends Pick<Ledger, "find"> {
  /** Stored content of a policy revision; undefined if there is none. Rejects with `store_unavailable`. */
  policyRevision(revision: string): Promise<string | undefined>;
  close(): Promise<void>;
}

/** A log as published. */
export interface PublishedLog {
  readonly name: LogName;
  readonly tenantId: TenantId;
  readonly origin: string;
  readonly size: number;
  /** C2SP `vkey` lines, the current key first. */
  readonly verifierKeys: readonly string[];
}

/** The published logs, for C2SP tlog-tiles. Malformed names match nothing. Rejects with `store_unavailable`. */
export interface PublishedLogs {
  published(): Promise<readonly PublishedLog[]>;
  /** Tenant of the log; undefined if there is no such log. */
  tenantOf(name: string): Promise<TenantId | undefined>;
  /** Finds records of a tenant's log; none without a log. Rejects with `internal` if one is damaged. */
  search(query: SearchQuery): Promise<SearchPage>;
  /**
   * A full receipt of a record under the newest signed state. `unknown` if the log has no such record, or there is no
   * such log. Rejects with `internal` if the record is damaged.
   */
  receipt(name: string, recordId: RecordId): Promise<Receipt | "unknown" | "erased">;
  /** The newest signed state; undefined if there is no such log. */
  checkpoint(name: string): Promise<string | undefined>;
  /** Hashes or entries of a committed tile, by the path after `tile/`; undefined if there is none. */
  tile(name: string, path: string): Promise<Uint8Array | undefined>;
  /** RFC 6962 §2.1.2 hashes; undefined for sizes that the log has not reached, and without a log. */
  consistencyProof(name: string, first: number, second: number): Promise<readonly Uint8Array[] | undefined>;
}
