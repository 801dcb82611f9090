/** The ledger as the rest of the service uses it. The comments are the contract. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { JsonObject } from "../../base/json.ts";
import type { Span } from "../../base/trace.ts";
import type { LogName } from "../tlog/log-name.ts";
import type { NewRecord, StoredRecord } from "./record.ts";
import type { RegistrationReader } from "./registrations.ts";
import type { SearchPage, SearchQuery } from "./search.ts";

/** Where a record ended up. */
export interface Appended {
  readonly recordId: RecordId;
  readonly log: string;
  readonly leafIndex: number;
  readonly recordedAt: string;
  readonly receipt: Receipt;
  /** Set where nothing was appended, because the call was a retry: what was answered to the first. */
  readonly earlierAnswer?: JsonObject;
}

/** With it anyone can check offline that the log holds exactly this record. */
export interface Receipt {
  readonly recordId: RecordId;
  readonly logOrigin: string;
  readonly leafIndex: number;
  readonly treeSize: number;
  /** RFC 6962 hash of the leaf. Base64, like the three last. */
  readonly leafHash: string;
  /** C2SP tlog-proof v1. */
  readonly proof: string;
  /** Exact bytes of leaf, opening and record; absent where less than `all` was asked for. */
  readonly leaf?: string | undefined;
  readonly opening?: string | undefined;
  readonly record?: string | undefined;
}

/** What a receipt shows besides the place of its record: all that there is, what opens it, or nothing. */
export type ShownOfRecord = "all" | "opening" | "nothing";

/** Records of one tenant that one durable commit carries. */
export interface RecordGroup {
  /**
   * Takes room for so many records, before they are made. Undefined if there is room; else resolves once enough of the
   * tenant's groups have ended, or rejects with `overloaded` after a second.
   */
  enter(count: number): Promise<void> | undefined;
  /** Gives back the room that was taken, however the group ended. Idempotent. */
  leave(): void;
  /**
   * Adds a record at its place in the group, whenever that is filled. Settles as `Ledger.append` does, once the group is
   * committed. Throws `invalid_request` for a record that cannot be recorded, which then is no part of the group.
   */
  add(place: number, record: NewRecord): Promise<Appended>;
  /**
   * Commits what was added, in the order of the places. Resolves once each record has its result. Rejects as
   * `Ledger.append` where nothing of the group was acknowledged; some of it may then still have become durable. Where the
   * store refuses the data of a record, that one is refused alone, and the others are committed without it, in several
   * commits.
   */
  commit(span?: Span): Promise<void>;
}

export interface Ledger extends RegistrationReader {
  /**
   * Appends one record to its tenant's log. Resolves only when the record is durable: after a crash of process or
   * machine at any later moment it is there. Records of one tenant are ordered; those of several are not. Rejects
   * with `ServiceError` `store_unavailable` when the store is down, its queue for the tenant is full, or the log is
   * not what the anchor says it was; the record may then still have become durable, and is never acknowledged.
   *
   * A record whose idempotency scope was seen in the last 24 hours is not appended: the first one's place, receipt
   * and answer are given, also across restarts. Rejects with `idempotency_conflict` when the payload is another, or
   * when the first record was erased.
   *
   * @param span of the append, to be linked with the one of the write that it shares with others
   */
  append(record: NewRecord, span?: Span): Promise<Appended>;

  /** Begins a group of a tenant's records, whose receipts need to show no more than this; they may show more. */
  group(tenantId: TenantId, shown?: ShownOfRecord): RecordGroup;

  /**
   * Finds a record of this tenant. Sees everything that was acknowledged before the call. Another tenant's record
   * is `unknown`. Rejects with `store_unavailable` when the store cannot be read.
   */
  find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased">;

  /**
   * What makes the root of a log's tree out of these leaves: roots of the largest subtrees that hold none of them, from
   * left to right. Rejects with `store_unavailable`, and with `internal` where the log is damaged or never was so large.
   *
   * @param log origin of the log
   * @param size of the tree, which holds all of the leaves
   * @param leafIndices ascending, each once
   */
  multiProof(log: string, size: number, leafIndices: readonly number[]): Promise<readonly Uint8Array[]>;

  /** Keeps everything that a policy revision consists of, so that its decisions can be evaluated again: text, or its UTF-8. Idempotent. */
  keepPolicyRevision(revision: string, content: string | Uint8Array): Promise<void>;

  /** Resolves when the store can write now; rejects with `store_unavailable` otherwise. */
  check(): Promise<void>;

  /** Finishes what is queued, then releases the store. */
  close(): Promise<void>;
}

/** Reads records back, beside a running service or without one. Cannot write. */
export interface RecordArchive extends Pick<Ledger, "find"> {
  /** What was kept of a policy revision; undefined where nothing was. Rejects with `store_unavailable`. */
  policyRevision(revision: string): Promise<string | undefined>;
  close(): Promise<void>;
}

/** A log as anyone may see it who may see it at all. */
export interface PublishedLog {
  readonly name: LogName;
  readonly tenantId: TenantId;
  readonly origin: string;
  /** Number of leaves. */
  readonly size: number;
  /** C2SP `vkey` lines, the current key first. */
  readonly verifierKeys: readonly string[];
}

/**
 * The logs as they are published: what C2SP tlog-tiles serves. Names and paths are as they stand in a URL; one that is
 * malformed names nothing. All reject with `store_unavailable`.
 */
export interface PublishedLogs {
  published(): Promise<readonly PublishedLog[]>;
  /** Whose log it is; undefined where there is no such log. */
  tenantOf(name: string): Promise<TenantId | undefined>;
  /** Finds records of a log; undefined where there is no such log. Rejects with `internal` when one is damaged. */
  search(name: string, query: Omit<SearchQuery, "tenantId">): Promise<SearchPage | undefined>;
  /** The signed newest state; undefined where there is no such log. */
  checkpoint(name: string): Promise<string | undefined>;
  /**
   * Hashes or entries of a committed tile, of any width that it has reached, by the path after `tile/`; undefined where
   * there is none.
   */
  tile(name: string, path: string): Promise<Uint8Array | undefined>;
  /** RFC 6962 §2.1.2 hashes; undefined for sizes that the log has not reached, and where there is none. */
  consistencyProof(name: string, first: number, second: number): Promise<readonly Uint8Array[] | undefined>;
}
